# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command line hands to ``serve``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServeOptions:
    """The flags of ``rdma-dp serve``, checked as far as that is possible without a kubelet."""

    config: Path
    kubelet_dir: Path
    sysfs: Path
    dev: Path  # the directory that holds infiniband/, as this process sees it
    host_dev: Path  # the same directory as kubelet and the container runtime see it
    pod_resources: Path | None
    cdi_dir: Path | None
    listen: tuple[str, int] | None
    log_format: str
    log_level: str
