# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The netdevs of a NIC: its functions' own, the bond over them, and the bond's other ports.

Alternative names (``ip link property add altname``) are known to netlink only, never to sysfs; here a netdev has the
one name that /sys/class/net shows.
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
    """The netdevs that belong to a NIC whose functions' own netdevs are `own`, those first."""
    names = list(own)
    uplink = ""
    for name in tuple(names):
        master = sysfs.link_name(_path(root, name) + "/master")
        if not master:
            continue
        if os.path.isdir(_path(root, master) + "/bonding"):
            names += [member for member in _members(root, master) if not _has_rdma_device(root, member)] + [master]
        elif not uplink and _carries_node_traffic(root, master) and not _is_representor(root, name):
            uplink = master
    return Netdevs(tuple(dict.fromkeys(names)), uplink)


def any_hardware(root: str) -> bool:
    """True when a netdev of this sysfs belongs to a device. A pod's own view has only virtual ones."""
    return any(os.path.lexists(_path(root, name) + "/device") for name in sysfs.list_names(root + "/class/net"))


def exists(root: str, name: str) -> bool:
    """True when the network namespace of this sysfs has the netdev."""
    return os.path.lexists(_path(root, name))


def _path(root: str, name: str) -> str:
    return root + "/class/net/" + name


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
