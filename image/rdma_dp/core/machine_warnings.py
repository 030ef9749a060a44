# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the machine rather than with one NIC, in sentences with the remedy."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence, Tuple

from . import drivers, netdevs
from .char_devices import CharDevices
from .exclusions import Candidate
from .model import Nic
from .pci import NetworkFunction

_MOST_NAMED = 4


def collect(
    root: str,
    nics: Sequence[Nic],
    candidates: Sequence[Candidate],
    functions: Sequence[NetworkFunction],
    nodes: CharDevices,
) -> Tuple[str, ...]:
    """All of them; `nics` are the candidates after judgement. A machine without RDMA NICs has none."""
    if not os.path.isdir(root + "/class"):
        return (f"{root} is no sysfs: name the directory where the host's /sys is mounted (--sysfs)",)
    return (
        *_without_driver(functions),
        *_without_rdma_module(root, functions, bool(candidates)),
        *_rdma_cm(nics, nodes),
        *_own_network_namespace(root, candidates),
    )


def _without_driver(functions: Sequence[NetworkFunction]) -> List[str]:
    needed: Dict[str, List[NetworkFunction]] = {}
    for function in functions:
        driver = drivers.driver_of(function)
        if driver and not function.driver:
            needed.setdefault(driver, []).append(function)
    return [
        f"no driver is bound to {_named(found)}: run `modprobe {driver}` on the machine; if it is loaded, see dmesg"
        for driver, found in sorted(needed.items())
    ]


def _without_rdma_module(root: str, functions: Sequence[NetworkFunction], any_rdma_device: bool) -> List[str]:
    """Drivers none of whose functions has an RDMA device. One without is normal: with RoCE LAG a card has one."""
    bound: Dict[str, List[NetworkFunction]] = {}
    for function in functions:
        if function.driver in drivers.RDMA_MODULES:
            bound.setdefault(function.driver, []).append(function)
    found = []
    for driver, of_driver in sorted(bound.items()):
        module = drivers.RDMA_MODULES[driver]
        expected = driver in drivers.RDMA_FIRST or not any_rdma_device
        if any(function.rdma for function in of_driver) or not expected:
            continue
        if not os.path.isdir(root + "/module/" + module):
            found.append(f"{_named(of_driver)} without RDMA device: run `modprobe {module}` on the machine")
        elif driver in drivers.RDMA_FIRST:
            found.append(
                f"{_named(of_driver)} without RDMA device although {module} is loaded: see the machine's dmesg"
            )
    return found


def _rdma_cm(nics: Sequence[Nic], nodes: CharDevices) -> List[str]:
    # EFA has no use for the connection manager, and its machines do not load it.
    if all(nic.driver == "efa" or nic.default_excluded for nic in nics):
        return []
    if nodes.rdma_cm is None:
        return ["rdma_cm is missing, so pods get no RDMA connection manager: run `modprobe rdma_ucm` on the machine"]
    fault = nodes.faults.get(nodes.rdma_cm.name)
    return [f"pods get no RDMA connection manager: {fault}"] if fault else []


def _own_network_namespace(root: str, candidates: Sequence[Candidate]) -> List[str]:
    """A container's own /sys shows the host's RDMA devices, but only the container's netdevs, which are all virtual."""
    on_ethernet = [candidate for candidate in candidates if candidate.nic.link_layer == "ether"]
    seen = any(netdevs.exists(root, name) for candidate in candidates for name in candidate.own_netdevs)
    if not on_ethernet or seen or netdevs.any_hardware(root):
        return []
    return [
        f"{root} shows the netdevs of a container, not the host's, so that ifNames match nothing: mount the host's "
        "/sys (hostPath) and name it with --sysfs"
    ]


def _named(functions: Sequence[NetworkFunction]) -> str:
    """The functions in words."""
    addresses = [f"{function.address} ({function.vendor}:{function.device_id})" for function in functions[:_MOST_NAMED]]
    more = f" and {len(functions) - _MOST_NAMED} more" if len(functions) > _MOST_NAMED else ""
    return f"PCI function{'s' if len(functions) > 1 else ''} {', '.join(addresses)}{more}"
