# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells when entries of one directory are created, moved or removed (inotify(7) through ctypes).

Only a hint to look again: events are read and dropped, since whoever wakes up reads the directory itself.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_IN_MOVED = 0x00C0
_IN_CREATE = 0x0100
_IN_DELETE = 0x0200
_IN_DELETE_SELF = 0x0400
_IN_MOVE_SELF = 0x0800
_IN_ONLYDIR = 0x01000000
_MASK = _IN_MOVED | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR


class Inotify:
    """One watch on one directory. ``fileno`` is readable when something happened."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError where there is no inotify, or no instance or watch is left (see fs.inotify in sysctl)."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _errno()
        if libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK) < 0:
            error = _errno()
            self.close()
            raise error

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._descriptor

    def drain(self) -> None:
        """Takes what has been reported so far."""
        try:
            while os.read(self._descriptor, 65536):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Ends the watch."""
        os.close(self._descriptor)


def _errno() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
