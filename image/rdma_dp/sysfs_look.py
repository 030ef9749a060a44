# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A quick look at what changes by itself: which RDMA devices there are, their ports' states, and the device nodes.

Taken every second; only when two looks differ is the whole of sysfs scanned. Some files per NIC, in a worker thread.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rdma_dp.core.ports import read_states
from rdma_dp.core.sysfs import list_names


@dataclass(frozen=True)
class Look:
    """Two equal looks mean that a scan would most likely find what the last one found."""

    # RDMA device -> (port, state); state as Port.state has it ("ACTIVE"), "" where it can't be read.
    ports: tuple[tuple[str, tuple[tuple[int, str], ...]], ...] = ()
    # node name -> device number; of everything in infiniband/ below the dev directory.
    nodes: tuple[tuple[str, int], ...] = ()

    def states(self, rdma_device: str) -> tuple[str, ...] | None:
        """The states of the device's ports; None when there is no such device."""
        return next(
            (tuple(state for _unused, state in ports) for name, ports in self.ports if name == rdma_device), None
        )


def look(sysfs: Path, dev: Path) -> Look:
    """Reads the states now. What is missing or can't be read is left out: a NIC may vanish while it is looked at."""
    root = os.path.join(sysfs, "class", "infiniband")
    ports = ((name, read_states(os.path.join(root, name))) for name in list_names(root))
    return Look(
        tuple((name, tuple(sorted(states.items()))) for name, states in ports),
        tuple(_nodes(os.path.join(dev, "infiniband"))),
    )


def _nodes(directory: str) -> list[tuple[str, int]]:
    found = []
    for name in list_names(directory):
        try:
            found.append((name, os.stat(os.path.join(directory, name)).st_rdev))
        except OSError:
            continue
    return found
