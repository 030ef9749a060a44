# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The netdevs of a NIC: its functions' own, the bond over them, and the bond's other ports.

Alternative names (``ip link property add altname``) are known to netlink only, never to sysfs, so that no selector can
match them; here a netdev has the one name that /sys/class/net shows, of at most 15 characters.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Iterable, List, Tuple

from . import sysfs

# phys_port_name of a switchdev representor, which stands for another function: "pf0vf3", "c1pf0sf88", "pf0hpf".
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+((vf|sf)\d+|hpf)")


@dataclass(frozen=True)
class Netdevs:
    """What one NIC has of them."""

    names: Tuple[str, ...]
    uplink: str = ""  # the netdev that uses this NIC as its fast path, where one does: its master, which is no bond


def of_nic(root: str, own: Iterable[str]) -> Netdevs:
    """The netdevs that belong to a NIC whose functions' own netdevs are `own`: the bond over them first, which is what
    operators know the NIC by.
    """
    own = tuple(own)
    bonds: List[str] = []
    members: List[str] = []
    uplink = ""
    for name in own:
        master = _master(root, name)
        if os.path.isdir(_path(root, master) + "/bonding"):
            bonds.append(master)
            members += [member for member in _members(root, master) if not _has_rdma_device(root, member)]
            master = _master(root, master)
        if master and not uplink and _carries_node_traffic(root, master) and not _is_representor(root, name):
            uplink = master
    return Netdevs(tuple(dict.fromkeys((*bonds, *own, *members))), uplink)


def without_representors(root: str, names: Iterable[str]) -> Tuple[str, ...]:
    """The names once each, without the netdevs that stand for another function: who selects these means that one."""
    return tuple(name for name in dict.fromkeys(names) if not _is_representor(root, name))


def in_switchdev_mode(root: str, own: Iterable[str]) -> bool:
    """True for a function that is a switch to its VFs and SFs: its netdevs are ports of a switch with an ID.

    An ordinary NIC's phys_switch_id answers EOPNOTSUPP, as do a VF's and an SF's.
    """
    return any(sysfs.read_text(_path(root, name) + "/phys_switch_id") for name in own)


def any_hardware(root: str) -> bool:
    """True when a netdev of this sysfs belongs to a device. A pod's own view has only virtual ones."""
    return any(os.path.lexists(_path(root, name) + "/device") for name in sysfs.list_names(root + "/class/net"))


def exists(root: str, name: str) -> bool:
    """True when the network namespace of this sysfs has the netdev."""
    return os.path.lexists(_path(root, name))


def _path(root: str, name: str) -> str:
    return root + "/class/net/" + name


def _master(root: str, name: str) -> str:
    """The netdev that it is part of, "" for none."""
    return sysfs.link_name(_path(root, name) + "/master")


def _members(root: str, bond: str) -> List[str]:
    names = sysfs.read_text(_path(root, bond) + "/bonding/slaves").split()
    return sorted(names, key=sysfs.natural_key)


def _has_rdma_device(root: str, netdev: str) -> bool:
    """With RoCE LAG the other ports of the bond have none; in a bond over NICs without LAG each keeps its own."""
    return bool(sysfs.list_names(_path(root, netdev) + "/device/infiniband"))


def _carries_node_traffic(root: str, master: str) -> bool:
    """True for a bridge and for the VM's own netdev (hv_netvsc, net_failover) over a passed-through NIC.

    Of the masters that only exist in software, a VRF or a team leaves its NICs to RDMA.
    """
    path = _path(root, master)
    if os.path.isdir(path + "/bridge") or master == "ovs-system":
        return True
    return "/devices/virtual/" not in sysfs.follow(path)


def _is_representor(root: str, netdev: str) -> bool:
    return _REPRESENTOR.fullmatch(sysfs.read_text(_path(root, netdev) + "/phys_port_name")) is not None
