# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a machine to the files of its /sys and /dev, as a value: path to what is there. Nothing is written here.

Where plain files can't tell the truth: the gid_attrs of an empty GID slot answer EINVAL in a real sysfs; here they are
absent, which readers see as another OSError.
All links are relative, so that the tree can be moved and mounted anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import gids
from .model import Function, Machine, Netdev, Port, RdmaDevice
from .state import Numbers

_SPEEDS = {"0200": "32.0 GT/s PCIe", "0207": "32.0 GT/s PCIe"}
_CM_COUNTERS = ("apr", "drep", "dreq", "lap", "mra", "rej", "rep", "req", "rtu", "sidr_rep", "sidr_req")


@dataclass(frozen=True)
class File:
    """A regular file."""

    content: str


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Node:
    """A character device."""

    major: int
    minor: int
    mode: int


@dataclass(frozen=True)
class Directory:
    """A directory that must be there even when nothing is in it."""


Entry = File | Link | Node | Directory
Tree = dict[str, Entry]


@dataclass
class _Builder:
    machine: Machine
    numbers: Numbers
    tree: Tree = field(default_factory=dict)

    def file(self, path: str, content: object) -> None:
        self.tree[path] = File(f"{content}\n")

    def files(self, directory: str, **contents: object) -> None:
        for name, content in contents.items():
            self.file(f"{directory}/{name}", content)

    def link(self, path: str, target: str) -> None:
        self.tree[path] = Link(os.path.relpath(target, os.path.dirname(path)))

    def function_path(self, address: str) -> str:
        function = next(function for function in self.machine.functions if function.address == address)
        return f"sys/devices/{function.path}/{address}"


def render(machine: Machine, numbers: Numbers) -> Tree:
    """All files below the root: ``sys/...`` and ``dev/...``."""
    build = _Builder(machine, numbers)
    for directory in (
        "sys/class",
        "sys/bus/pci/devices",
        "sys/devices/virtual/net",
        "sys/module",
        "sys/class/net",
        "dev",
    ):
        build.tree[directory] = Directory()
    _numa(build)
    for module in machine.modules:
        _module(build, module)
    for function in machine.functions:
        _function(build, function)
    _netdevs(build)
    for device in machine.rdma_devices:
        _rdma_device(build, device)
    if machine.rdma_cm_minor is not None:
        _misc(build, machine.rdma_cm_minor)
    for name in machine.stray_nodes:
        build.tree[f"dev/infiniband/{name}"] = Node(231, 255, 0o666)
    return build.tree


def _numa(build: _Builder) -> None:
    node_path = "sys/devices/system/node"
    online = f"0-{len(build.machine.cpus) - 1}" if len(build.machine.cpus) > 1 else "0"
    build.files(node_path, online=online, possible=online)
    for number, cpus in enumerate(build.machine.cpus):
        build.file(f"{node_path}/node{number}/cpulist", cpus)


def _module(build: _Builder, module: str) -> None:
    build.files(f"sys/module/{module}", refcnt=0, initstate="live")
    if module == "ib_core":
        build.file("sys/module/ib_core/parameters/netns_mode", "Y")
        build.tree["sys/class/infiniband"] = Directory()
    if module == "ib_uverbs":
        build.file("sys/class/infiniband_verbs/abi_version", 6)
    if module == "ib_umad":
        build.file("sys/class/infiniband_mad/abi_version", 5)


# --- PCI ------------------------------------------------------------------------------------------------------------


def _function(build: _Builder, function: Function) -> None:
    path = build.function_path(function.address)
    _bridges(build, function)
    _pci_device(
        build, path, function.pci_class + "00", function.vendor, function.device_id, function.driver, function.numa_node
    )
    build.files(
        path,
        subsystem_vendor=f"0x{function.vendor}",
        subsystem_device="0x0001",
        revision="0x00",
        enable=1,
        current_link_speed=_SPEEDS.get(function.pci_class, "Unknown"),
        current_link_width=16,
        max_link_speed=_SPEEDS.get(function.pci_class, "Unknown"),
        max_link_width=16,
    )
    if function.vpd:
        build.file(f"{path}/vpd", function.vpd)
    if function.total_vfs:
        build.files(path, sriov_totalvfs=function.total_vfs, sriov_numvfs=len(_virtual_functions(build, function)))
        for index, vf in enumerate(_virtual_functions(build, function)):
            build.link(f"{path}/virtfn{index}", build.function_path(vf.address))
    if function.physfn:
        build.link(f"{path}/physfn", build.function_path(function.physfn))


def _virtual_functions(build: _Builder, owner: Function) -> list[Function]:
    return [function for function in build.machine.functions if function.physfn == owner.address]


def _bridges(build: _Builder, function: Function) -> None:
    """The ports between the host bridge and the function, all on its NUMA node."""
    parts = function.path.split("/")
    for depth in range(1, len(parts)):
        path = "sys/devices/" + "/".join(parts[: depth + 1])
        _pci_device(build, path, "060400", "8086", "352a", "pcieport", function.numa_node)


def _pci_device(
    build: _Builder, path: str, pci_class: str, vendor: str, device_id: str, driver: str, numa_node: int
) -> None:
    address = os.path.basename(path)
    cpus = build.machine.cpus
    build.files(
        path,
        vendor=f"0x{vendor}",
        device=f"0x{device_id}",
        numa_node=numa_node,
        local_cpulist=cpus[numa_node] if 0 <= numa_node < len(cpus) else ",".join(cpus),
        modalias=f"pci:v0000{vendor.upper()}d0000{device_id.upper()}",
        uevent=f"PCI_ID={vendor.upper()}:{device_id.upper()}\nPCI_SLOT_NAME={address}",
    )
    build.file(f"{path}/class", f"0x{pci_class}")
    build.link(f"{path}/subsystem", "sys/bus/pci")
    build.link(f"sys/bus/pci/devices/{address}", path)
    if driver:
        build.link(f"{path}/driver", f"sys/bus/pci/drivers/{driver}")
        build.link(f"sys/bus/pci/drivers/{driver}/{address}", path)


# --- netdevs --------------------------------------------------------------------------------------------------------


def _netdevs(build: _Builder) -> None:
    netdevs = (*build.machine.netdevs, Netdev(name="lo", mac="00:00:00:00:00:00"))
    paths = {netdev.name: _netdev_path(build, netdev, position) for position, netdev in enumerate(netdevs)}
    for index, netdev in enumerate(netdevs):
        _netdev(build, netdev, paths, index + 1)
    bonds = [netdev.name for netdev in netdevs if netdev.is_bond]
    build.file("sys/class/net/bonding_masters", " ".join(bonds))
    for bond in bonds:
        members = [netdev for netdev in netdevs if netdev.master == bond]
        build.files(
            f"{paths[bond]}/bonding",
            slaves=" ".join(member.name for member in members),
            mode="802.3ad 4",
            miimon=100,
            mii_status="up" if any(member.up for member in members) else "down",
            xmit_hash_policy="layer3+4 1",
        )


def _netdev_path(build: _Builder, netdev: Netdev, position: int) -> str:
    if netdev.function:
        parent = build.function_path(netdev.function)
        return (
            f"{parent}/{netdev.sub_function}/net/{netdev.name}"
            if netdev.sub_function
            else f"{parent}/net/{netdev.name}"
        )
    if netdev.bus == "vmbus":
        return f"sys/devices/LNXSYSTM:00/LNXSYBUS:00/VMBUS:00/00155d00-0000-0000-0000-{position:012x}/net/{netdev.name}"
    if netdev.bus == "virtio":
        pci_path = f"sys/devices/pci0000:00/0000:00:{0x10 + position:02x}.0"
        _pci_device(build, pci_path, "020000", "1af4", "1041", "virtio-pci", -1)
        build.link(f"{pci_path}/virtio{position}/driver", "sys/bus/virtio/drivers/virtio_net")
        return f"{pci_path}/virtio{position}/net/{netdev.name}"
    return f"sys/devices/virtual/net/{netdev.name}"


def _netdev(build: _Builder, netdev: Netdev, paths: dict[str, str], index: int) -> None:
    path = paths[netdev.name]
    members = [other for other in build.machine.netdevs if other.master == netdev.name]
    build.files(
        path,
        address=netdev.mac,
        ifindex=index,
        type=772 if netdev.name == "lo" else 32 if netdev.infiniband else 1,
        operstate="unknown" if netdev.name == "lo" else "up" if netdev.up else "down",
        carrier=int(netdev.up),
        mtu=65536 if netdev.name == "lo" else 4092 if netdev.infiniband else 1500,
        flags="0x1003" if netdev.up else "0x1002",
        dev_id="0x0",
        dev_port=netdev.dev_port,
        # The sum over a bond's members; an RDMA port's rate is that of one.
        speed=sum(member.speed for member in members) if netdev.is_bond else netdev.speed,
        uevent=(("DEVTYPE=bond\n" if netdev.is_bond else "") + f"INTERFACE={netdev.name}\nIFINDEX={index}"),
    )
    if netdev.phys_port_name:
        build.file(f"{path}/phys_port_name", netdev.phys_port_name)
    if netdev.phys_switch_id:
        build.file(f"{path}/phys_switch_id", netdev.phys_switch_id)
    build.link(f"{path}/subsystem", "sys/class/net")
    build.link(f"sys/class/net/{netdev.name}", path)
    if netdev.function or netdev.bus:
        build.link(f"{path}/device", os.path.dirname(os.path.dirname(path)))
    if netdev.bus == "vmbus":
        build.link(f"{os.path.dirname(os.path.dirname(path))}/driver", "sys/bus/vmbus/drivers/hv_netvsc")
    if netdev.master:
        build.link(f"{path}/master", paths[netdev.master])
        build.link(f"{path}/upper_{netdev.master}", paths[netdev.master])
        build.link(f"{paths[netdev.master]}/lower_{netdev.name}", path)


# --- RDMA devices ---------------------------------------------------------------------------------------------------


def _rdma_device(build: _Builder, device: RdmaDevice) -> None:
    parent = build.function_path(device.function) if device.function else "sys/devices/virtual"
    if device.sub_function:
        parent = _sub_function(build, device, parent)
    path = f"{parent}/infiniband/{device.name}"
    build.files(
        path,
        node_guid=device.node_guid,
        sys_image_guid=device.sys_image_guid,
        node_type=device.node_type,
        node_desc=device.node_desc,
        fw_ver=device.fw_ver,
        uevent=f"NAME={device.name}",
    )
    if device.hca_type:
        build.files(path, hca_type=device.hca_type, hw_rev="0", board_id=device.board_id)
    if device.parent:
        build.file(f"{path}/parent", device.parent)
    if device.function:
        build.link(f"{path}/device", parent)
    build.tree[f"{path}/power"] = Directory()
    build.link(f"{path}/subsystem", "sys/class/infiniband")
    build.link(f"sys/class/infiniband/{device.name}", path)
    for port in device.ports:
        _port(build, f"{path}/ports/{port.number}", port, device)
    _char_devices(build, device, parent)


def _sub_function(build: _Builder, device: RdmaDevice, function_path: str) -> str:
    path = f"{function_path}/{device.sub_function}"
    if device.sf_number is not None:
        build.file(f"{path}/sfnum", device.sf_number)
    build.link(f"{path}/driver", "sys/bus/auxiliary/drivers/mlx5_core.sf")
    build.link(f"{path}/subsystem", "sys/bus/auxiliary")
    build.link(f"sys/bus/auxiliary/devices/{device.sub_function}", path)
    return path


def _port(build: _Builder, path: str, port: Port, device: RdmaDevice) -> None:
    build.files(
        path,
        state=port.state,
        phys_state=port.phys_state,
        link_layer=port.link_layer,
        rate=port.rate,
        lid=port.lid,
        lid_mask_count=0,
        sm_lid="0x1" if port.link_layer == "InfiniBand" else "0x0",
        sm_sl=0,
        cap_mask=port.cap_mask,
    )
    build.file(f"{path}/pkeys/0", "0xffff")
    filled = {row.index: row for row in port.gids}
    for directory in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        build.tree[f"{path}/{directory}"] = Directory()
    for index in range(max([port.table_size, *(row.index + 1 for row in port.gids)])):
        row = filled.get(index)
        build.file(f"{path}/gids/{index}", row.gid if row else gids.EMPTY)
        if row:
            build.file(f"{path}/gid_attrs/types/{index}", row.type)
        if row and row.netdev:
            build.file(f"{path}/gid_attrs/ndevs/{index}", row.netdev)
    for counter in device.counters:
        build.file(f"{path}/counters/{counter}", 0)
    for counter in device.hw_counters:
        build.file(f"{path}/hw_counters/{counter}", 10 if counter == "lifespan" else 0)
    if port.umad:
        for group in ("cm_rx_duplicates", "cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries"):
            for counter in _CM_COUNTERS:
                build.file(f"{path}/{group}/{counter}", 0)


def _char_devices(build: _Builder, device: RdmaDevice, parent: str) -> None:
    if "ib_uverbs" in build.machine.modules:
        number = build.numbers.uverbs[device.name]
        path = _char_device(build, parent, "infiniband_verbs", f"uverbs{number}", _uverbs(number), 0o666)
        build.files(path, ibdev=device.name, abi_version=device.abi_version)
    for port in device.ports if "ib_umad" in build.machine.modules else ():
        number = build.numbers.umad.get((device.name, port.number), -1)
        for kind, wanted, first in (("umad", port.umad, 0), ("issm", port.umad and port.issm, 64)):
            if wanted:
                path = _char_device(build, parent, "infiniband_mad", f"{kind}{number}", _umad(number, first), 0o600)
                build.files(path, ibdev=device.name, port=port.number)


def _char_device(build: _Builder, parent: str, class_name: str, name: str, number: tuple[int, int], mode: int) -> str:
    path = f"{parent}/{class_name}/{name}"
    _device_files(build, path, name, number, mode)
    build.link(f"{path}/subsystem", f"sys/class/{class_name}")
    build.link(f"sys/class/{class_name}/{name}", path)
    return path


def _device_files(build: _Builder, path: str, name: str, number: tuple[int, int], mode: int) -> None:
    major, minor = number
    build.files(path, dev=f"{major}:{minor}", uevent=f"MAJOR={major}\nMINOR={minor}\nDEVNAME=infiniband/{name}")
    build.tree[f"dev/infiniband/{name}"] = Node(major, minor, mode)


def _misc(build: _Builder, minor: int) -> None:
    path = "sys/devices/virtual/misc/rdma_cm"
    _device_files(build, path, "rdma_cm", (10, minor), 0o666)
    build.file(f"{path}/abi_version", 4)
    build.link(f"{path}/subsystem", "sys/class/misc")
    build.link("sys/class/misc/rdma_cm", path)


def _uverbs(number: int) -> tuple[int, int]:
    """The kernel's fixed numbers end at 32 devices; those after them have a dynamic major."""
    return (231, 192 + number) if number < 32 else (511, number - 32)


def _umad(number: int, first: int) -> tuple[int, int]:
    return (231, first + number) if number < 64 else (510, first * 16 + number - 64)


def openable(tree: Tree) -> Tree:
    """The same with every node another name of /dev/null, and sysfs in agreement: nodes that any pod can open."""
    changed: Tree = {}
    for path, entry in tree.items():
        if isinstance(entry, Node):
            changed[path] = Node(1, 3, entry.mode)
        elif isinstance(entry, File) and path.endswith("/dev") and _of_a_class(path):
            changed[path] = File("1:3\n")
        else:
            changed[path] = entry
    return changed


def _of_a_class(path: str) -> bool:
    return any(f"/{name}/" in path for name in ("infiniband_verbs", "infiniband_mad", "misc"))


def directories(paths: Iterable[str]) -> set[str]:
    """All directories above the given paths."""
    found: set[str] = set()
    for path in paths:
        while path := os.path.dirname(path):
            found.add(path)
    return found
