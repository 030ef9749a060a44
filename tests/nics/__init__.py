# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated RDMA NICs: machines described in small files, written as the /sys and /dev of a host. See README.md.

simulated = nics.build("b300", tmp_path)        # tmp_path/sys, tmp_path/dev
simulated.set_port("mlx5_bond_0", 1, "DOWN")
"""

from __future__ import annotations

from pathlib import Path

from .library import machine, names
from .memory import scratch
from .model import Machine
from .simulated import Simulated

__all__ = ["Machine", "Simulated", "build", "load", "machine", "names", "scratch"]


def build(machine_or_name: Machine | str | Path, root: Path, openable: bool = False) -> Simulated:
    """Writes the machine into `root`, which must be empty.

    `openable` makes every device node another name of /dev/null, in sysfs too, so that containers can open the nodes.
    Without it the nodes have the kernel's numbers. Nodes need root; without it they are left out.
    """
    described = machine_or_name if isinstance(machine_or_name, Machine) else machine(machine_or_name)
    return Simulated.build(Path(root), described, openable)


def load(root: Path) -> Simulated:
    """Opens a machine that `build` wrote, perhaps in another process."""
    return Simulated.load(Path(root))
