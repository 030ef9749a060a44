# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of our sockets in kubelet's directory, and the removal of those that a killed process of ours left there.

A name is used once: ``rdma-dp-<resource>-<process>-<generation>.sock``. gRPC removes the path when a listener ends,
even if a newer one has bound it meanwhile (KUBELET.md, Python trap 1), and older kubelets mix generations up (rule 29).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rdma_dp.kubelet_dir import SocketId, accepts
from rdma_dp.logs import Log

# sun_path has 108 bytes, one of them for the terminator (unix(7)); kubelet's own directory leaves 75 (rule 4).
PATH_LIMIT = 107
_NAME_LIMIT = 75
_PREFIX = "rdma-dp-"
_OURS = re.compile(r"rdma-dp-[A-Za-z0-9._-]+-[0-9a-f]{6}-[0-9]+\.sock")
_DIGEST = 8
# Prefix, digest, process, a generation of six digits, dashes and suffix: the shortest name that is still unique.
_SHORTEST = len(_PREFIX) + _DIGEST + len("-123456-999999.sock")


class SocketPathError(Exception):
    """Kubelet's directory has too long a path for any socket in it."""


@dataclass
class SocketNames:
    """Hands out a fresh name per call. The process part keeps two plugins, or two lives of one, apart."""

    directory: Path
    process: str = field(default_factory=lambda: secrets.token_hex(3))
    generation: int = 0

    def __post_init__(self) -> None:
        length = len(os.fsencode(self.directory))
        if length + 1 + _SHORTEST > PATH_LIMIT:
            raise SocketPathError(
                f"the path of kubelet's directory has {length} bytes, which leaves no room for a socket name: "
                f"a socket's whole path may have {PATH_LIMIT} bytes, ours needs {_SHORTEST + 1} of them. "
                f"Give a shorter --kubelet-dir, e.g. a symbolic link to {self.directory}"
            )

    def fresh(self, resource: str) -> str:
        """A file name that nobody has used before."""
        self.generation += 1
        tail = f"-{self.process}-{self.generation}.sock"
        room = min(_NAME_LIMIT, PATH_LIMIT - len(os.fsencode(self.directory)) - 1) - len(_PREFIX) - len(tail)
        label = re.sub(r"[^A-Za-z0-9._-]", "_", resource)
        if len(label) > room:
            digest = hashlib.sha256(resource.encode()).hexdigest()[:_DIGEST]
            front = label[: max(0, room - _DIGEST - 1)]
            label = f"{front}-{digest}" if len(front) > 3 else digest
        return _PREFIX + label + tail


async def remove_leftovers(directory: Path, mine: Callable[[str], bool], log: Log, patience: float = 1.0) -> None:
    """Removes sockets with our kind of name on which nobody listens, twice, ``patience`` seconds apart.

    Twice, because a plugin that is just starting has bound its socket some microseconds before it listens. Sockets for
    which ``mine(name)`` holds, of other programs, and anything that is not a socket, are left alone.
    """
    dead = dict(_dead(directory, mine))
    if not dead:
        return
    await asyncio.sleep(patience)
    for name, identity in _dead(directory, mine):
        if dead.get(name) == identity:
            try:
                os.unlink(directory / name)
            except OSError as error:
                log.warning("could not remove a dead socket of an earlier run", socket=name, error=error.strerror)
            else:
                log.info("removed a dead socket of an earlier run", socket=name)


def _dead(directory: Path, mine: Callable[[str], bool]) -> Iterator[tuple[str, SocketId]]:
    for name in sorted(os.listdir(directory)):
        path = directory / name
        if not _OURS.fullmatch(name) or mine(name):
            continue
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        owned = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()
        if owned and not accepts(path):
            yield name, SocketId(status.st_dev, status.st_ino, status.st_mtime_ns)
