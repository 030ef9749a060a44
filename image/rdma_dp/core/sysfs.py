# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of sysfs that can't fail: what is not there, or not readable just now, is "unknown".

Devices come and go while they are read, and attributes answer EINVAL or EIO where they have no value (an empty GID
slot), so every OSError here is an ordinary answer. Reads are bounded and never wait, whatever lies at the path.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

# A sysfs attribute is at most one page (Documentation/filesystems/sysfs.rst).
ATTRIBUTE_SIZE = 4096
# O_NONBLOCK: a FIFO in a tree that somebody copied must not stop a scan.
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PARTS = re.compile(r"(\D*)(\d*)")


def read_bytes(path: str, limit: int = ATTRIBUTE_SIZE) -> Optional[bytes]:
    """The first `limit` bytes of a file; None where it can't be read."""
    try:
        file = os.open(path, READ_FLAGS)
    except OSError:
        return None
    try:
        return os.read(file, limit)
    except OSError:
        return None
    finally:
        os.close(file)


def first_line(data: Optional[bytes]) -> str:
    """The first line as text without white space around it; "" for None and for what is no printable UTF-8."""
    if not data:
        return ""
    try:
        line = data.partition(b"\n")[0].decode("utf-8").strip()
    except UnicodeDecodeError:
        return ""
    return line if line.isprintable() else ""


def read_text(path: str) -> str:
    """A one-line attribute; "" where it can't be read."""
    return first_line(read_bytes(path))


def list_names(path: str) -> List[str]:
    """Names in a directory that can be printed, in natural order; [] where it can't be read."""
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return sorted((name for name in names if name.isprintable()), key=natural_key)


def link_name(path: str) -> str:
    """The last component of a link's target (``driver -> .../mlx5_core``: mlx5_core); "" where there is none."""
    try:
        name = os.path.basename(os.readlink(path))
    except OSError:
        return ""
    return name if name.isprintable() else ""


def follow(path: str) -> str:
    """Where a symbolic link leads, without a look at what is there; `path` itself where it is none.

    Directories on the way are taken for real ones, as all in sysfs are: one call instead of one per component.
    """
    try:
        target = os.readlink(path)
    except OSError:
        return path
    return os.path.normpath(os.path.join(os.path.dirname(path), target))


def natural_key(name: str) -> Tuple[Tuple[Tuple[str, int], ...], str]:
    """Sorts mlx5_2 before mlx5_10."""
    return tuple((text, int(digits or -1)) for text, digits in _PARTS.findall(name)), name
