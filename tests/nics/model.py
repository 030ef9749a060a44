# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's RDMA hardware as immutable values: what a description says, everything it leaves open filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Function:
    """One PCI function."""

    address: str  # 0000:17:00.0
    path: str  # below sys/devices, without the address: pci0000:10/0000:10:08.0
    vendor: str  # four hex digits
    device_id: str
    pci_class: str  # four hex digits: 0200 Ethernet, 0207 InfiniBand
    driver: str = ""  # "": none bound
    numa_node: int = -1
    physfn: str = ""  # address of the PF; "" for what is no VF
    total_vfs: int = 0
    vpd: str = ""


@dataclass(frozen=True)
class Netdev:
    """One network device."""

    name: str
    mac: str
    function: str = ""  # PCI address; "" for a virtual one
    sub_function: str = ""  # auxiliary device below the function
    bus: str = ""  # "virtio", "vmbus": a device of that bus stands between function and netdev
    infiniband: bool = False
    up: bool = True
    master: str = ""
    is_bond: bool = False
    dev_port: int = 0
    phys_port_name: str = ""
    phys_switch_id: str = ""
    speed: int = 100_000  # Mb/s


@dataclass(frozen=True)
class Gid:
    """One filled row of a GID table."""

    index: int
    gid: str
    type: str  # as sysfs writes it: "IB/RoCE v1", "RoCE v2"
    netdev: str = ""  # "": reading it gives EINVAL


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device, its attributes as sysfs writes them."""

    number: int
    state: str
    phys_state: str
    link_layer: str
    rate: str
    gids: tuple[Gid, ...] = ()
    table_size: int = 256  # rows
    lid: str = "0x0"
    cap_mask: str = "0x00010000"
    umad: bool = True
    issm: bool = False


@dataclass(frozen=True)
class RdmaDevice:
    """One entry of /sys/class/infiniband."""

    name: str
    node_guid: str
    sys_image_guid: str
    node_type: str  # "1: CA"
    node_desc: str
    fw_ver: str
    ports: tuple[Port, ...]
    function: str = ""  # PCI address; "" for a software device
    sub_function: str = ""  # auxiliary device: mlx5_core.sf.4
    sf_number: int | None = None
    parent: str = ""  # netdev of a software device
    hca_type: str = ""
    board_id: str = ""
    abi_version: str = "1"
    counters: tuple[str, ...] = ()
    hw_counters: tuple[str, ...] = ()
    uverbs_number: int | None = None  # None: the lowest free one


@dataclass(frozen=True)
class Machine:
    """Everything that the tree is made of."""

    name: str
    description: str
    source: str = ""
    functions: tuple[Function, ...] = ()
    netdevs: tuple[Netdev, ...] = ()
    rdma_devices: tuple[RdmaDevice, ...] = ()
    modules: tuple[str, ...] = ()
    rdma_cm_minor: int | None = None  # None: rdma_ucm is not loaded
    cpus: tuple[str, ...] = ("0-31",)  # of each NUMA node
    stray_nodes: tuple[str, ...] = ()  # of /dev/infiniband, without a device in sysfs


def from_dict(data: dict[str, Any]) -> Machine:
    """The reverse of ``dataclasses.asdict``, after a way through JSON."""

    def device(entry: dict[str, Any]) -> RdmaDevice:
        ports = tuple(Port(**{**port, "gids": tuple(Gid(**row) for row in port["gids"])}) for port in entry["ports"])
        names = {key: tuple(entry[key]) for key in ("counters", "hw_counters")}
        return RdmaDevice(**{**entry, **names, "ports": ports})

    return Machine(
        **{
            **{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()},
            "functions": tuple(Function(**entry) for entry in data["functions"]),
            "netdevs": tuple(Netdev(**entry) for entry in data["netdevs"]),
            "rdma_devices": tuple(map(device, data["rdma_devices"])),
        }
    )
