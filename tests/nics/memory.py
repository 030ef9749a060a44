# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A place for simulated machines: in memory where the machine has one, since each is some thousand files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = "/dev/shm"


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is removed in the end."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="nics-", dir=place) as name:
        yield Path(name)
