# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking a sandbox away, in whatever state it is: running, half started, crashed, its records lost.

What belongs to it is known by its id (cgroups, bridge, cables, packet filter rules, /run/ID) and by the marker in its
state directory. Nothing else is touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from tests.sandbox import cgroups, firewall, network
from tests.sandbox.commands import run
from tests.sandbox.layout import CONTENTS, MARKER, MARKER_TEXT, Layout
from tests.sandbox.processes import ProcessTable, alive, reap


def exists(layout: Layout) -> bool:
    """True when anything at all is left of the sandbox, logs aside."""
    groups = any((path / layout.id).exists() for path in cgroups.hierarchies().all)
    links = any(name.startswith(layout.id) for name in os.listdir("/sys/class/net"))
    files = marked(layout.state) and any(
        (layout.state / name).exists() for name in CONTENTS if name not in (MARKER, "logs")
    )
    return groups or links or files or layout.run.exists()


def marked(state: Path) -> bool:
    """True for a state directory of ours."""
    with contextlib.suppress(OSError):
        return (state / MARKER).read_text() == MARKER_TEXT
    return False


def remove(layout: Layout, *, keep_logs: bool = False) -> int:
    """Remove everything; returns how many processes were ended.

    :raises SandboxError: something can't be removed; running it again goes on from there.
    """
    where = cgroups.hierarchies()
    # Without its mark the state directory is still ours when a sandbox was started with it: someone deleted from it.
    ours = marked(layout.state) or layout.run.exists()
    table = ProcessTable(layout.records, Path("/"), layout.logs)
    stray = [process for process in table.all() if alive(process)]
    ended = cgroups.kill_all(where, layout.id)
    reap(table.all())
    for process in stray:  # were all in the cgroup, unless they were caught just before they joined it
        ended += table.stop(process.name, grace=0.0) if alive(process) else 0
    network.remove(layout)
    firewall.close_for(layout.id)
    for path in (layout.run, layout.state):
        _unmount_below(path)
    cgroups.remove(where, layout.id)
    if ours:
        _remove_state(layout.state, keep_logs=keep_logs)
    if layout.run.exists():
        shutil.rmtree(layout.run)
    return ended


def _remove_state(state: Path, *, keep_logs: bool) -> None:
    for name in CONTENTS:  # the marker is the last
        path = state / name
        if keep_logs and name in ("logs", MARKER):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # others keep files there
        state.rmdir()


def _unmount_below(path: Path) -> None:
    """Nothing of ours is mounted in the host's namespace; but removing files through a mount would be a disaster."""
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        mount_point = Path(line.split()[4].replace("\\040", " "))
        if path in mount_point.parents:
            run(["umount", "--lazy", str(mount_point)])
