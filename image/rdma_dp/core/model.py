# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The immutable values that flow through the plugin, in the order in which they arise.

``config.parse`` yields a :class:`Config`, ``discovery.scan`` a :class:`Snapshot`; ``pools.compute`` makes a
:class:`Picture` of the two, which ListAndWatch, Allocate, the metrics and the command line read. Nothing else keeps a
copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

SHARED = "shared"
EXCLUSIVE = "exclusive"
CHAR_DEVICE_KINDS = ("uverbs", "umad", "issm", "rdma_cm")


# --- what the machine has -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gid:
    """One filled slot of a port's GID table (Documentation/ABI: /sys/class/infiniband/*/ports/*/gids)."""

    index: int
    gid: str  # eight groups of four hex digits, as sysfs writes it
    type: str  # "RoCE v1", "RoCE v2", "IB", "" where unknown
    netdev: str  # "" where unknown


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device."""

    number: int  # from 1
    state: str  # "ACTIVE", "DOWN", ...; "" where it can't be read
    phys_state: str  # "LinkUp", "Disabled", ...; "" where it can't be read
    link_layer: str  # "ether", "infiniband", "" where unknown
    rate: str  # as sysfs writes it: "400 Gb/sec (4X NDR)"
    gids: Tuple[Gid, ...] = ()


@dataclass(frozen=True)
class CharDevice:
    """One node of /dev/infiniband."""

    kind: str  # one of CHAR_DEVICE_KINDS
    name: str  # the node's name below infiniband/: "uverbs0", "rdma_cm"
    number: str  # "231:192", from sysfs; "" where sysfs does not say
    present: bool  # the node is in the dev directory, a character device, with that number
    port: int = 0  # umad and issm belong to a port; 0: to the whole device


@dataclass(frozen=True)
class Nic:
    """One RDMA device of /sys/class/infiniband. A RoCE LAG bond is one device, hence one NIC."""

    id: str  # PCI address, or the RDMA device's name where there is no PCI function
    rdma_device: str
    pci_address: str = ""
    vendor: str = ""  # four lower-case hex digits, without 0x
    device_id: str = ""
    driver: str = ""
    numa_node: Optional[int] = None  # None: the kernel does not know (-1)
    function: str = ""  # "pf", "vf", "sf"; "" for a NIC without PCI function
    netdevs: Tuple[str, ...] = ()  # of all ports; the bond over them first, then members. No altnames: sysfs has none
    ports: Tuple[Port, ...] = ()
    char_devices: Tuple[CharDevice, ...] = ()  # without rdma_cm, which is the node's
    default_excluded: str = ""  # why a pool takes it only when a selector names it; "" for ordinary NICs
    reasons: Tuple[str, ...] = ()  # sentences: why it can't be used; empty for a usable NIC

    @property
    def usable(self) -> bool:
        """True when a pod could use it: its uverbs node is there."""
        return not self.reasons

    @property
    def link_layer(self) -> str:
        """Of the first port that tells."""
        return next((port.link_layer for port in self.ports if port.link_layer), "")


@dataclass(frozen=True)
class Snapshot:
    """Everything that one scan found, sorted by NIC id."""

    nics: Tuple[Nic, ...] = ()
    rdma_cm: Optional[CharDevice] = None
    warnings: Tuple[str, ...] = ()  # sentences about the machine, e.g. a PCI function whose RDMA driver is missing


# --- what the operator wants ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selectors:
    """AND between fields, OR inside one; an empty field does not filter."""

    vendors: Tuple[str, ...] = ()
    device_ids: Tuple[str, ...] = ()
    drivers: Tuple[str, ...] = ()
    if_names: Tuple[str, ...] = ()
    link_types: Tuple[str, ...] = ()
    rdma_devices: Tuple[str, ...] = ()  # shell patterns
    pci_addresses: Tuple[str, ...] = ()
    functions: Tuple[str, ...] = ()  # empty: pf and sf, and whatever is named exactly


@dataclass(frozen=True)
class PoolConfig:
    """One entry of configList, normalised, defaults filled in."""

    resource_name: str
    resource_prefix: str = "rdma"
    mode: str = SHARED
    rdma_hca_max: int = 1000
    rdma_hca_scope: str = "node"  # "node" | "nic"
    selectors: Selectors = Selectors()
    required_char_devices: Tuple[str, ...] = ("uverbs",)
    health_policy: str = "any"  # "any" | "all"
    exclude_topology: bool = False
    nccl: bool = True
    cdi: bool = False

    @property
    def resource(self) -> str:
        """The full name that a pod asks for: ``rdma/hca``."""
        return self.resource_prefix + "/" + self.resource_name


@dataclass(frozen=True)
class HealthConfig:
    """How port states become health."""

    poll_interval: float = 1.0  # s
    fail_after: int = 2  # looks in a row
    recover_after: int = 5


@dataclass(frozen=True)
class Config:
    """A whole valid configuration file."""

    pools: Tuple[PoolConfig, ...]
    periodic_update_interval: int = 60  # s; 0: no periodic rescan
    health: HealthConfig = HealthConfig()


# --- what is offered ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Device:
    """One entry of kubelet's device list."""

    id: str
    healthy: bool
    nic_ids: Tuple[str, ...]  # the NICs that Allocate opens for it
    numa_nodes: Tuple[int, ...] = ()  # empty: no preference; never -1


@dataclass(frozen=True)
class Pool:
    """What one resource offers at this moment."""

    config: PoolConfig
    devices: Tuple[Device, ...]
    nics: Tuple[Nic, ...]  # those that the selectors and the overlap rules gave it, usable or not
    warnings: Tuple[str, ...] = ()

    @property
    def healthy(self) -> int:
        """How many of the devices are Healthy."""
        return sum(device.healthy for device in self.devices)


@dataclass(frozen=True)
class Picture:
    """All pools, made of one snapshot and one config."""

    pools: Tuple[Pool, ...] = ()
    rdma_cm: Optional[CharDevice] = None
    # For `discover`: NIC id -> (resources that take it) or the first thing that refused it.
    taken_by: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()
    refused: Tuple[Tuple[str, str], ...] = ()
