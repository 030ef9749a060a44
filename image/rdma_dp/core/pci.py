# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI side of a NIC: which function it sits on, and which network functions the machine has at all."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Optional, Tuple

from . import sysfs

# Domains have four hex digits, or more behind a VMD controller or a hypervisor.
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_SUB_FUNCTION = re.compile(r"\w+\.sf\.\d+")
_ID = re.compile(r"(?:0x)?([0-9a-f]{4})")
_NETWORK_CLASSES = ("0x02", "0x0c06")  # network controllers, and InfiniBand's class of old
_LARGEST_NUMA_NODE = 1023


@dataclass(frozen=True)
class Function:
    """The PCI function under an RDMA device, and the sub-function (auxiliary device) between the two, if any."""

    address: str
    path: str  # real path of the function's directory
    sub_function_path: str = ""

    @property
    def kind(self) -> str:
        """Which of "pf", "vf" and "sf" it is. A VF passed into a VM has no physfn there: a "pf" to its users."""
        if self.sub_function_path:
            return "sf"
        return "vf" if os.path.lexists(self.path + "/physfn") else "pf"


@dataclass(frozen=True)
class NetworkFunction:
    """A network function of /sys/bus/pci/devices, whether RDMA uses it or not."""

    address: str
    vendor: str
    device_id: str
    driver: str  # "" where none is bound
    rdma: bool  # an RDMA device sits on it


def locate(root: str, rdma_device_path: str) -> Optional[Function]:
    """The function under an RDMA device of the sysfs at `root` (a real path); None for a NIC without PCI function.

    The ``device`` link leads to the function, or to an auxiliary device below it. While a driver goes away the link is
    gone before the device is; then the device's own place in the tree, which is below the function too, tells.
    """
    own_path = sysfs.follow(rdma_device_path)
    path = sysfs.follow(own_path + "/device")
    if not path.startswith(root + "/"):
        return None
    parts = path.split("/")
    for index in range(len(parts) - 1, len(root.split("/")) - 1, -1):
        if ADDRESS.fullmatch(parts[index]):
            below = parts[index + 1] if index + 1 < len(parts) else ""
            function_path = "/".join(parts[: index + 1])
            sub_function = function_path + "/" + below if _SUB_FUNCTION.fullmatch(below) else ""
            return Function(parts[index], function_path, sub_function)
    return None


def stable_name(function: Function) -> str:
    """What names the function over reboots and driver reloads: its address, and for a sub-function the number that its
    creator gave it; "" for a sub-function without one.
    """
    if not function.sub_function_path:
        return function.address
    number = sysfs.read_text(function.sub_function_path + "/sfnum")
    return function.address + "-sf" + number if re.fullmatch(r"[0-9]{1,10}", number) else ""


def read_id(path: str) -> str:
    """A ``vendor`` or ``device`` attribute as four lower-case hex digits; "" where it can't be read."""
    match = _ID.fullmatch(sysfs.read_text(path).lower())
    return match.group(1) if match else ""


def numa_node(function: Function) -> Optional[int]:
    """The NUMA node of a function, else of the nearest bridge above it that knows one (KUBELET.md, NUMA).

    None where nobody knows (-1), and where a node without CPUs is named: firmware that names one has it wrong.
    """
    path = function.path
    while ADDRESS.fullmatch(os.path.basename(path)):
        try:
            node = int(sysfs.read_text(path + "/numa_node"))
        except ValueError:
            node = -1
        if node >= 0:
            cpus = sysfs.read_bytes(path + "/local_cpulist")
            distrusted = cpus is not None and not cpus.strip()
            return None if distrusted or node > _LARGEST_NUMA_NODE else node
        path = os.path.dirname(path)
    return None


def network_functions(root: str) -> Tuple[NetworkFunction, ...]:
    """All network functions of the machine, in the order of their addresses."""
    bus = root + "/bus/pci/devices"
    found = []
    for address in sysfs.list_names(bus):
        path = bus + "/" + address
        if sysfs.read_text(path + "/class").startswith(_NETWORK_CLASSES):
            found.append(
                NetworkFunction(
                    address=address,
                    vendor=read_id(path + "/vendor"),
                    device_id=read_id(path + "/device"),
                    driver=sysfs.link_name(path + "/driver"),
                    rdma=bool(sysfs.list_names(path + "/infiniband")),
                )
            )
    return tuple(sorted(found, key=lambda function: function.address))
