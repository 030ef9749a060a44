# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a sysfs and a dev directory to a :class:`Snapshot`: every RDMA device of the machine, and what is wrong with it.

The scan starts at /sys/class/infiniband, not at PCI or netdevs, since an RDMA device may have neither. It never raises:
what can't be read is unknown, and a NIC that comes or goes meanwhile is reported with what was there.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Dict, Optional, Sequence, Tuple

from . import char_devices, exclusions, machine_warnings, netdevs, pci, ports
from .char_devices import CharDevices
from .exclusions import Candidate
from .model import CharDevice, Nic, Snapshot
from .sysfs import link_name, list_names, natural_key, read_text

# Software devices have no driver in sysfs; what they call themselves does tell. The description can be overwritten
# (rdma-ndd does), so the names that everybody gives them count too.
_SOFTWARE_DRIVERS = (("rxe", "rxe", "rdma_rxe"), ("Software iWARP stack", "siw", "siw"))


def scan(sysfs: Path, dev: Path, all_gids: bool = True) -> Snapshot:
    """Reads everything once.

    `sysfs` is the host's /sys or a tree like it; `dev` the directory that holds ``infiniband/``. Nothing
    outside the two is read.

    With `all_gids` false, each port has its first GID only, and the rest of the snapshot is the same. That is for who
    scans again and again: 16 NICs take some 5 ms so. All GIDs of theirs, at 256 each, are 12,288 files more, which take
    some 80 ms (25 ms where most of the slots are empty), and they change with each pod that has a netdev on the NIC.
    """
    root = os.path.realpath(sysfs)
    nodes = char_devices.scan(root, os.path.abspath(dev))
    class_path = root + "/class/infiniband"
    found = [_read(root, class_path + "/" + name, name, nodes, all_gids) for name in list_names(class_path)]
    # What left while it was read is gone, not half there.
    there = [candidate for candidate in found if _is_device(class_path + "/" + candidate.nic.rdma_device)]
    candidates = exclusions.with_smi_apart(there)
    functions = pci.network_functions(root)
    ids = _ids(candidates)
    excluded = exclusions.reasons(candidates, functions)
    nics = [_judged(candidate, ids, excluded) for candidate in candidates]
    return Snapshot(
        nics=tuple(sorted(nics, key=lambda nic: nic.id)),
        rdma_cm=nodes.rdma_cm,
        warnings=machine_warnings.collect(root, nics, candidates, functions, nodes),
    )


def _is_device(path: str) -> bool:
    return os.path.islink(path) or os.path.isdir(path)


def _read(root: str, path: str, name: str, nodes: CharDevices, all_gids: bool) -> Candidate:
    """One RDMA device, without regard to the others."""
    function = pci.locate(root, path)
    own = _own_netdevs(path, function)
    nic_netdevs = netdevs.of_nic(root, own)
    nic_ports = ports.read_ports(path, all_gids)
    # The first one is the port's own. Behind it are VLANs, and what pods have on top of it, under the pods' names.
    of_gids = sorted({gid.netdev for port in nic_ports for gid in port.gids[:1] if gid.netdev}, key=natural_key)
    devices = nodes.by_rdma_device.get(name, ())
    nic = Nic(
        id="",  # needs the others
        rdma_device=name,
        pci_address=function.address if function else "",
        vendor=pci.read_id(function.path + "/vendor") if function else "",
        device_id=pci.read_id(function.path + "/device") if function else "",
        driver=link_name(function.path + "/driver") if function else _software_driver(path, name),
        numa_node=pci.numa_node(function) if function else None,
        function=function.kind if function else "",
        netdevs=netdevs.without_representors(root, (*nic_netdevs.names, *of_gids)),
        ports=nic_ports,
        char_devices=tuple(sorted(devices, key=_char_device_order)),
        reasons=_reasons(devices, nodes),
    )
    return Candidate(
        nic=nic,
        stable_name=pci.stable_name(function) if function else "",
        own_netdevs=own,
        uplink=nic_netdevs.uplink,
        switchdev=netdevs.in_switchdev_mode(root, own),
        software=function is None and not os.path.lexists(path + "/device"),
        manages_nvswitch=exclusions.manages_nvswitch(nic, function),
    )


def _judged(candidate: Candidate, ids: Dict[str, str], excluded: Dict[str, str]) -> Nic:
    name = candidate.nic.rdma_device
    return replace(candidate.nic, id=ids[name], default_excluded=excluded.get(name, ""))


def _own_netdevs(path: str, function: Optional[pci.Function]) -> Tuple[str, ...]:
    """The netdevs of the device's function; of a software device the one that it was put on."""
    if function:
        return tuple(list_names((function.sub_function_path or function.path) + "/net"))
    parent = read_text(path + "/parent")
    return (parent,) if parent else ()


def _software_driver(path: str, name: str) -> str:
    description = read_text(path + "/node_desc")
    for described, prefix, driver in _SOFTWARE_DRIVERS:
        if description == described or name.startswith(prefix):
            return driver
    return ""


def _char_device_order(device: CharDevice) -> Tuple[int, int, Tuple[object, ...]]:
    return ("uverbs", "umad", "issm").index(device.kind), device.port, natural_key(device.name)


def _reasons(devices: Sequence[CharDevice], nodes: CharDevices) -> Tuple[str, ...]:
    """Why no pod can use the NIC: that takes a uverbs node, and only that (RoCE NICs lack issm, iWARP ones umad)."""
    uverbs = [device for device in devices if device.kind == "uverbs"]
    if any(device.present for device in uverbs):
        return ()
    if uverbs:
        return tuple(nodes.faults[device.name] for device in uverbs)
    if not nodes.uverbs_loaded:
        return ("it has no uverbs device: run `modprobe ib_uverbs` on the machine",)
    return (
        "it has no uverbs device although ib_uverbs is loaded: its driver comes or goes just now, or a process "
        "holds the removed device open; if it stays so, see the machine's dmesg",
    )


def _ids(candidates: Sequence[Candidate]) -> Dict[str, str]:
    """RDMA device to NIC id; unique, and the same in whatever order the devices came up."""
    ids: Dict[str, str] = {}
    taken = set()
    for candidate in candidates:
        if candidate.stable_name and candidate.stable_name not in taken:
            ids[candidate.nic.rdma_device] = candidate.stable_name
            taken.add(candidate.stable_name)
    for candidate in candidates:
        name = unique = candidate.nic.rdma_device
        if name not in ids:
            while unique in taken:  # an RDMA device can be given any name, an address too
                unique += "+"
            ids[name] = unique
            taken.add(unique)
    return ids
