# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in kubelet's device-plugins directory, as a value that is always new.

inotify wakes the watch at once; a slow poll beside it covers what inotify misses (an overflow, a directory that was
replaced, no inotify instance left). Both only lead to looking again. (KUBELET.md rule 42: several signals together.)
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from rdma_dp.inotify import Inotify
from rdma_dp.latest import Latest, happens
from rdma_dp.logs import Log

KUBELET_SOCKET = "kubelet.sock"
_POLL = 1.0  # s, beside inotify
_POLL_ALONE = 0.2  # s, without inotify: a new kubelet must be seen within a second


@dataclass(frozen=True)
class SocketId:
    """Tells one kubelet.sock from the next. The inode alone does not: file systems hand the same number out again."""

    device: int
    inode: int
    modified: int  # ns; set at creation, and by neither chmod nor a new security label


@dataclass(frozen=True)
class Listing:
    """The sockets of the directory at one moment."""

    kubelet: SocketId | None = None  # None: there is no kubelet.sock
    sockets: frozenset[str] = frozenset()
    exists: bool = True


def look(directory: Path) -> Listing:
    """Reads the directory; one that can't be read counts as missing."""
    kubelet, sockets = None, set()
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed between the two calls
                if stat.S_ISSOCK(status.st_mode):
                    sockets.add(entry.name)
                    if entry.name == KUBELET_SOCKET:
                        kubelet = SocketId(status.st_dev, status.st_ino, status.st_mtime_ns)
    except OSError:
        return Listing(exists=False)
    return Listing(kubelet, frozenset(sockets))


def accepts(path: Path) -> bool:
    """Whether somebody listens on the socket; a file that a dead process left refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(os.fspath(path))
        except BlockingIOError:
            return True  # the queue of a listener is full: busy, but there
        except OSError:
            return False
    return True


async def watch(directory: Path, listing: Latest[Listing], log: Log) -> None:
    """Keeps ``listing`` up to date until it is cancelled."""
    told = False
    while True:
        try:
            inotify = Inotify(directory)
        except OSError as error:
            if not told:
                log.warning(
                    "no inotify for kubelet's directory, polling it instead", dir=directory, error=error.strerror
                )
                told = True
            await _follow(directory, listing, asyncio.Event(), _POLL_ALONE, rounds=50)
            continue  # it may have come back: try inotify again
        told = False
        try:
            await _follow_events(directory, listing, inotify)
        finally:
            inotify.close()


async def _follow_events(directory: Path, listing: Latest[Listing], inotify: Inotify) -> None:
    """Follows by inotify until the directory is another one (removed and made anew)."""
    stirred = asyncio.Event()

    def drain() -> None:
        inotify.drain()
        stirred.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(inotify.fileno(), drain)
    try:
        watched = _directory_id(directory)
        while _directory_id(directory) == watched:
            await _follow(directory, listing, stirred, _POLL, rounds=1)
    finally:
        loop.remove_reader(inotify.fileno())
    listing.publish(look(directory))


async def _follow(directory: Path, listing: Latest[Listing], stirred: asyncio.Event, poll: float, rounds: int) -> None:
    for _unused in range(rounds):
        stirred.clear()
        listing.publish(look(directory))
        await happens(stirred, within=poll)


def _directory_id(directory: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino
