# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold between the values of a pool, and between pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, Optional, Sequence, Tuple

from . import message_size, names
from .config_keys import Mapped
from .model import EXCLUSIVE, SHARED, PoolConfig
from .problems import Report, Steps

# Only some pools can obey these; elsewhere they would be silently without effect.
_SHARED_ONLY = {
    "rdmaHcaMax": "an exclusive pool offers one device per NIC",
    "rdmaHcaScope": "an exclusive pool offers one device per NIC",
    "healthPolicy": "in an exclusive pool each device is as healthy as its NIC",
}


@dataclass(frozen=True)
class Entry:
    """One entry of configList: as it stands in the file, and as a pool if it is complete enough for one."""

    mapped: Mapped
    pool: Optional[PoolConfig]


def check_pool(mapped: Mapped, selectors: Optional[Mapped], place: Steps, report: Report) -> None:
    """Reports what is wrong within one pool."""
    if "resourceName" not in mapped.places:
        report.add((*place, "resourceName"), "is missing", "name the resource that pods ask for, for example hca")
    _check_mode(mapped, report)
    _check_choice_of_nics(mapped, selectors, place, report)
    _check_size(mapped, place, report)


def _check_mode(mapped: Mapped, report: Report) -> None:
    if mapped.values.get("mode") == EXCLUSIVE:
        for key, why in _SHARED_ONLY.items():
            if key in mapped.places:
                report.add(mapped.places[key], "has no meaning in mode exclusive", f"remove it: {why}")
    elif mapped.values.get("rdmaHcaScope") == "nic" and "healthPolicy" in mapped.places:
        hint = "remove it: each device is as healthy as its NIC"
        report.add(mapped.places["healthPolicy"], "has no meaning with rdmaHcaScope nic", hint)


def _check_choice_of_nics(mapped: Mapped, selectors: Optional[Mapped], place: Steps, report: Report) -> None:
    """A pool needs selectors or devices, not both; empty lists count as not given, as in today's plugin."""
    devices = _given(mapped, "devices")
    selected = selectors is not None and any(_given(selectors, key) for key in selectors.places)
    if devices and selected:
        hint = "devices is the old form of selectors.ifNames: move its entries there"
        report.add(mapped.places["devices"], "stands beside selectors", hint)
    elif not devices and not selected and not (selectors and selectors.wrong):
        hint = 'write selectors, for example {"vendors": ["15b3"]}; for every usable NIC {"rdmaDevices": ["*"]}'
        report.add((*place, "selectors"), "no NICs are selected", hint)


def _given(mapped: Mapped, key: str) -> bool:
    """The key has a non-empty list; one that is wrong counts, as it was meant to be one."""
    return key in mapped.places and mapped.values.get(key) != ()


def _check_size(mapped: Mapped, place: Steps, report: Report) -> None:
    """The device list must fit into one message to kubelet (KUBELET.md rule 25)."""
    values = mapped.values
    if "resourceName" not in values or values.get("mode", SHARED) != SHARED or "rdmaHcaMax" not in values:
        return
    prefix, name, count = values.get("resourcePrefix", "rdma"), values["resourceName"], values["rdmaHcaMax"]
    if values.get("rdmaHcaScope") == "nic":
        fronts = [names.shared_front(prefix, name, message_size.PCI_ADDRESS)] * message_size.ASSUMED_NICS
        numa = [[1]] * message_size.ASSUMED_NICS
        limit = f"with {message_size.ASSUMED_NICS} NICs, at most %d per NIC fit"
    else:
        fronts, numa = [names.shared_front(prefix, name)], []
        limit = "at most %d fit with this resource name"
    size = message_size.message_size(fronts, count, numa)
    if size > message_size.MAX_MESSAGE:
        message = f"{count} devices make a list of {size} bytes; kubelet takes {message_size.MAX_MESSAGE}"
        report.add(mapped.places["rdmaHcaMax"], message, limit % message_size.most(fronts, numa))


def check_together(entries: Sequence[Entry], report: Report) -> None:
    """Reports what is wrong between pools."""
    resources: Dict[str, Steps] = {}
    variables: Dict[str, Tuple[str, Steps]] = {}
    for entry in entries:
        if entry.pool is None or _prefix_is_wrong(entry):
            continue
        resource, place = entry.pool.resource, entry.mapped.places["resourceName"]
        variable = names.devices_variable(resource)
        if resource in resources:
            hint = "give each pool a name of its own, or select the NICs of both in one"
            report.add(place, f"{resource} is offered by configList[{resources[resource][1]}] already", hint)
        elif variable in variables:
            other, _unused = variables[variable]
            message = f"{resource} and {other} share the environment variable {variable}"
            report.add(place, message, "choose names that differ by more than case, '-', '_', '.' and '/'")
        resources.setdefault(resource, place)
        variables.setdefault(variable, (resource, place))
    _check_nccl(entries, report)


def _prefix_is_wrong(entry: Entry) -> bool:
    return "resourcePrefix" in entry.mapped.places and "resourcePrefix" not in entry.mapped.values


def _check_nccl(entries: Sequence[Entry], report: Report) -> None:
    """A container with devices of two exclusive pools would get one pool's NCCL_IB_HCA at random (rule 36)."""
    exclusive = [entry for entry in entries if entry.mapped.values.get("mode") == EXCLUSIVE]
    for entry in exclusive if len(exclusive) > 1 else ():
        if entry.mapped.values.get("nccl"):
            message = "there are several exclusive pools, and NCCL_IB_HCA could name the NICs of one only"
            report.add(entry.mapped.places["nccl"], message, "leave it out or write false, or make one pool of them")


def with_nccl_left_out(pools: Tuple[PoolConfig, ...]) -> Tuple[PoolConfig, ...]:
    """The default of ``nccl`` is true for the only exclusive pool, and false where there are several."""
    if sum(pool.mode == EXCLUSIVE for pool in pools) < 2:
        return pools
    return tuple(replace(pool, nccl=False) if pool.mode == EXCLUSIVE else pool for pool in pools)
