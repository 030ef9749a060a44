# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices that are no NICs for pods: a pool takes them only when a selector names them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Sequence, Tuple

from . import drivers, pci, sysfs
from .model import Nic

# The Vital Product Data of the ConnectX functions in front of NVSwitches (HGX B200 and later) hold this word. Reading
# them goes through the device's configuration space, slowly, so only the part in which it stands is read.
_NVSWITCH_MARK = b"SW_MNG"
_VPD_SIZE = 1024  # bytes


@dataclass(frozen=True)
class Candidate:
    """One RDMA device as it was read, with what a judgement over all of them needs."""

    nic: Nic  # without id and default_excluded
    stable_name: str  # of its PCI function; "" for a device without
    own_netdevs: Tuple[str, ...]  # without bonds and what GIDs name
    uplink: str  # the netdev of the node itself that uses this NIC, "" for none
    switchdev: bool  # its card is in switchdev mode
    software: bool
    manages_nvswitch: bool
    smi: bool = False


def manages_nvswitch(nic: Nic, function: Optional[pci.Function]) -> bool:
    """True for a NIC by which the node's NVLink subnet manager reaches the NVSwitches."""
    if function is None or nic.vendor != drivers.NVIDIA or nic.function != "pf" or nic.link_layer != "infiniband":
        return False
    return _NVSWITCH_MARK in (sysfs.read_bytes(function.path + "/vpd", _VPD_SIZE) or b"")


def with_smi_apart(candidates: Sequence[Candidate]) -> List[Candidate]:
    """The candidates, SMI devices marked: the sub-devices through which the subnet of a multi-plane NIC is managed.

    Such a device shares the function of its NIC, but neither its name nor its netdevs. That it is one, the kernel says
    over netlink only. In sysfs it has the kernel's name for it, or has issm devices where the NIC itself has none.
    """
    issm_less = {item.stable_name for item in candidates if item.stable_name and not _has_issm(item)}
    return [
        replace(item, smi=True, stable_name="", own_netdevs=(), nic=replace(item.nic, netdevs=()))
        if item.nic.rdma_device.startswith("smi") or (item.stable_name in issm_less and _has_issm(item))
        else item
        for item in candidates
    ]


def reasons(candidates: Sequence[Candidate], functions: Sequence[pci.NetworkFunction]) -> Dict[str, str]:
    """RDMA device to the reason why pools leave it alone by default; ordinary NICs are not in it."""
    efa = any(candidate.nic.driver == "efa" for candidate in candidates)
    hardware = any(not candidate.software for candidate in candidates) or any(map(drivers.is_rdma_hardware, functions))
    found = {}
    for candidate in candidates:
        nic = candidate.nic
        if candidate.smi:
            found[nic.rdma_device] = "it is an SMI device, which serves subnet management only"
        elif candidate.manages_nvswitch:
            found[nic.rdma_device] = "it manages the machine's NVSwitches (SW_MNG in its VPD)"
        elif efa and nic.vendor == drivers.NVIDIA and nic.link_layer == "infiniband":
            found[nic.rdma_device] = "it is an NVLink controller: machines with EFA have no InfiniBand network"
        elif candidate.switchdev and not _has_gids(nic):
            found[nic.rdma_device] = "its card is in switchdev mode, where it has no GIDs: only its SFs and VFs do RoCE"
        elif candidate.uplink:
            found[nic.rdma_device] = f"its netdev is part of {candidate.uplink}, which carries the node's own traffic"
        elif candidate.software and hardware:
            found[nic.rdma_device] = "it is RDMA in software, on a machine with RDMA hardware"
    return found


def _has_gids(nic: Nic) -> bool:
    """True for a device that could do RoCE, and for any other than Ethernet."""
    return nic.link_layer != "ether" or any(port.gids for port in nic.ports)


def _has_issm(candidate: Candidate) -> bool:
    return any(device.kind == "issm" for device in candidate.nic.char_devices)
