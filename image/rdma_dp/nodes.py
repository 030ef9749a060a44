# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the device nodes that a snapshot knows are still those of its NICs.

Looked at in the moment of Allocate: a driver reload renumbers uverbs nodes, and may give mlx5_0 to another function.
Host paths that kubelet has once been given stay with the container until its pod ends (KUBELET.md rule 35).
Only names and links are read, no attribute that asks the NIC's firmware; for 8 NICs well under a millisecond.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from rdma_dp.core.model import CharDevice, Nic
from rdma_dp.core.sysfs import read_text

_CLASSES = {"uverbs": "infiniband_verbs", "umad": "infiniband_mad", "issm": "infiniband_mad"}


def changed(nics: Iterable[Nic], rdma_cm: CharDevice | None, sysfs: Path, dev: Path) -> str | None:
    """The first thing that is no longer as the snapshot says, as a sentence; None when all is.

    ``sysfs`` and ``dev`` are the directories that the snapshot was made of (``dev`` holds infiniband/).
    """
    classes, nodes = f"{sysfs}/class/", f"{dev}/infiniband/"
    for nic in nics:
        if nic.pci_address and nic.pci_address not in _where(f"{classes}infiniband/{nic.rdma_device}"):
            return f"RDMA device {nic.rdma_device} is no longer at {nic.pci_address}"
        for char in nic.char_devices:
            if not char.present:
                continue
            if read_text(f"{classes}{_CLASSES[char.kind]}/{char.name}/ibdev") != nic.rdma_device:
                return f"{char.name} is no longer of {nic.rdma_device}"
            if not _is_node(nodes + char.name, char.number):
                return f"{nodes}{char.name} is no longer the device node of {nic.rdma_device}"
    if rdma_cm is not None and rdma_cm.present and not _is_node(nodes + rdma_cm.name, rdma_cm.number):
        return f"{nodes}{rdma_cm.name} is no longer there"
    return None


def _where(entry: str) -> list[str]:
    """The components of the device's path: buses, bridges and functions above it."""
    try:
        path = os.readlink(entry)
    except OSError:
        path = os.path.realpath(os.path.join(entry, "device"))
    return path.split("/")


def _is_node(path: str, number: str) -> bool:
    try:
        status = os.stat(path)
    except PermissionError:
        return True  # we may not look; discovery takes it as present too
    except OSError:
        return False
    found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return stat.S_ISCHR(status.st_mode) and number in ("", found)
