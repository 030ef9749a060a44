# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of /dev/infiniband: which there should be by sysfs, and whether they are."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from . import sysfs
from .model import CharDevice

_NODE = re.compile(r"(uverbs|umad|issm)\d+")
_NUMBER = re.compile(r"\d{1,10}:\d{1,10}")
_REMEDY = "run `udevadm trigger` on the machine"
_CLASSES = ("infiniband_verbs", "infiniband_mad")


@dataclass(frozen=True)
class CharDevices:
    """All character devices of the machine's RDMA devices."""

    by_rdma_device: Dict[str, Tuple[CharDevice, ...]]
    rdma_cm: Optional[CharDevice]
    uverbs_loaded: bool
    faults: Dict[str, str]  # node name to the sentence that says what is wrong with it


def scan(root: str, dev: str) -> CharDevices:
    """Reads the verbs and MAD classes of the sysfs at `root`, and looks up each node in `dev`/infiniband."""
    found: Dict[str, List[CharDevice]] = {}
    faults: Dict[str, str] = {}
    for class_name in _CLASSES:
        path = root + "/class/" + class_name
        for name in sysfs.list_names(path):
            match = _NODE.fullmatch(name)  # the directories hold a file abi_version, too
            if match:
                kind, own_path = match.group(1), path + "/" + name
                port = 0 if kind == "uverbs" else _port_number(sysfs.read_text(own_path + "/port"))
                device = _char_device(kind, name, own_path, dev, faults, port)
                found.setdefault(sysfs.read_text(own_path + "/ibdev"), []).append(device)
    rdma_cm_path = root + "/class/misc/rdma_cm"
    return CharDevices(
        by_rdma_device={owner: tuple(devices) for owner, devices in found.items()},
        rdma_cm=_char_device("rdma_cm", "rdma_cm", rdma_cm_path, dev, faults)
        if os.path.lexists(rdma_cm_path)
        else None,
        # The module makes the class directory, loaded or built in.
        uverbs_loaded=os.path.isdir(root + "/class/infiniband_verbs"),
        faults=faults,
    )


def _char_device(kind: str, name: str, path: str, dev: str, faults: Dict[str, str], port: int = 0) -> CharDevice:
    number = sysfs.read_text(path + "/dev")
    if not _NUMBER.fullmatch(number):
        number = ""
    fault = _node_fault(dev, name, number)
    if fault:
        faults[name] = fault
    return CharDevice(kind=kind, name=name, number=number, present=not fault, port=port)


def _node_fault(dev: str, name: str, number: str) -> str:
    """What is wrong with the node `name`, as a sentence; "" where nothing is, or where the process may not look."""
    node = dev + "/infiniband/" + name
    try:
        status = os.stat(node)
    except PermissionError:
        return ""
    except OSError:
        if not os.path.isdir(dev + "/infiniband"):
            return f"the directory {dev}/infiniband is missing: udev has not made it, or {dev} is not the host's /dev"
        return f"the node {node} is missing although the kernel has the device: {_REMEDY}"
    if not stat.S_ISCHR(status.st_mode):
        return f"{node} is no character device: remove it, and {_REMEDY}"
    actual = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    if number and number != actual:
        return f"the node {node} has the number {actual}, the kernel's device {number}: remove it, and {_REMEDY}"
    return ""


def _port_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
