# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox's control groups, in every hierarchy of the machine (version 1, version 2, or both mounted).

All processes of a sandbox are below the group named by its id: the programs in ``ID/programs``, each node's pods in
``ID/NODE``. So they can be ended together without knowing a single pid.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tests.sandbox.errors import SandboxError

PROGRAMS = "programs"


@dataclass(frozen=True)
class Hierarchies:
    """Where cgroups are mounted. ``tracker`` is the one in which all our programs are."""

    v1: tuple[Path, ...]
    v2: Path | None

    @property
    def all(self) -> tuple[Path, ...]:
        """Every mount point."""
        return self.v1 + ((self.v2,) if self.v2 else ())

    @property
    def tracker(self) -> Path:
        """With version 1 the freezer: nobody keeps accounts there, systemd does not manage it.

        :raises SandboxError: no cgroups at all.
        """
        if not self.all:
            raise SandboxError(
                "No cgroup hierarchy is mounted here. The sandbox needs /sys/fs/cgroup, as any kubelet does."
            )
        if not self.v1:
            return self.all[0]
        return next((path for path in self.v1 if "freezer" in path.name), self.v1[0])


def parse_hierarchies(mountinfo: str) -> Hierarchies:
    """Read /proc/self/mountinfo. Version 2 counts as itself only when it is at /sys/fs/cgroup, as runc sees it."""
    v1: list[Path] = []
    v2: list[Path] = []
    for line in mountinfo.splitlines():
        before, _unused, after = line.partition(" - ")
        mount_point = Path(before.split()[4].replace("\\040", " "))
        kind = after.split()[0]
        if kind == "cgroup" and mount_point not in v1:
            v1.append(mount_point)
        elif kind == "cgroup2":
            v2.append(mount_point)
    return Hierarchies(tuple(v1), v2[-1] if v2 else None)


def hierarchies() -> Hierarchies:
    """Those of this machine."""
    return parse_hierarchies(Path("/proc/self/mountinfo").read_text())


def create(where: Hierarchies, sandbox: str, nodes: tuple[str, ...]) -> Path:
    """Make the groups; the path is where programs are to be put.

    :raises SandboxError: not allowed.
    """
    try:
        for mount_point in where.all:
            for group in (sandbox, *(f"{sandbox}/{node}" for node in nodes)):
                _make(mount_point, group, where.v2 == mount_point)
        programs = where.tracker / sandbox / PROGRAMS
        programs.mkdir(exist_ok=True)
    except OSError as error:
        raise SandboxError(
            f"{error.filename}: {error.strerror}. The sandbox needs writable cgroups, as any kubelet does."
        ) from None
    return programs


def _make(mount_point: Path, group: str, v2: bool) -> None:
    path = mount_point / group
    path.mkdir(exist_ok=True)
    # An empty cpuset takes no process; new groups of version 1 are empty.
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not v2 and (path / name).exists():
            (path / name).write_text((path.parent / name).read_text())
    if v2 and (path.parent / "cgroup.controllers").exists():
        for controller in (path.parent / "cgroup.controllers").read_text().split():
            for directory in (path.parent, path):
                with contextlib.suppress(OSError):  # not every controller can be handed down everywhere
                    (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def members(where: Hierarchies, sandbox: str) -> set[int]:
    """The pids of everything below the sandbox's groups."""
    pids: set[int] = set()
    for mount_point in where.all:
        for directory, _unused, _unused in os.walk(mount_point / sandbox):
            with contextlib.suppress(OSError):  # the group went away meanwhile
                pids.update(int(line) for line in (Path(directory) / "cgroup.procs").read_text().split())
    pids.discard(0)  # a process of another pid namespace
    return pids


def kill_all(where: Hierarchies, sandbox: str, seconds: float = 20.0) -> int:
    """SIGKILL until nothing is left; returns how many processes there were.

    :raises SandboxError: some can't be ended.
    """
    seen: set[int] = set()
    deadline = time.monotonic() + seconds
    while pids := members(where, sandbox):
        seen |= pids
        if time.monotonic() > deadline:
            raise SandboxError(
                f"The processes {sorted(pids)} of {sandbox} do not end. See `ps -o pid,stat,wchan,args`."
            )
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return len(seen)


def remove(where: Hierarchies, sandbox: str, seconds: float = 10.0) -> None:
    """Remove the groups, which must be empty of processes.

    :raises SandboxError: one is still in use.
    """
    deadline = time.monotonic() + seconds
    for mount_point in where.all:
        for directory, _unused, _unused in os.walk(mount_point / sandbox, topdown=False):
            while True:
                try:
                    os.rmdir(directory)
                except FileNotFoundError:
                    pass
                except OSError as error:  # the kernel needs a moment after the last process
                    if time.monotonic() > deadline:
                        raise SandboxError(f"The cgroup {directory} can't be removed: {error.strerror}.") from None
                    time.sleep(0.02)
                    continue
                break
