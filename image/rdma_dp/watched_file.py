# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices that a file is another one now: rewritten, replaced, or reached through another link.

By polling: a ConfigMap's file is a link to a link that kubelet swaps, in a directory that may itself be mounted anew;
one stat that follows all links sees every case, and what it costs once a second can't be measured.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

Stamp = tuple[int, int, int, int]


@dataclass
class WatchedFile:
    """Remembers what the file looked like when it was last asked about."""

    path: Path
    _stamp: Stamp | None = None

    def changed(self) -> bool:
        """Whether the file differs from what it was at the last call; its removal is a change too."""
        before, self._stamp = self._stamp, self._look()
        return self._stamp != before

    def _look(self) -> Stamp | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
