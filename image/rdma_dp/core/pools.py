# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where config and snapshot meet: which pool gets which NICs, and what devices each resource offers.

A pure function of its arguments. The picture that was in force before is one of them: a NIC that was offered and is
gone stays in its pool, unusable, so that its devices are Unhealthy and not forgotten (kubelet keeps the capacity).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Dict, List, Mapping, Optional, Sequence, Tuple

from . import message_size, names, selectors
from .model import EXCLUSIVE, Config, Device, Nic, Picture, Pool, PoolConfig, Snapshot

GONE = "it was offered and has disappeared; check lspci and the kernel log"
_WITHOUT = {  # what to do about a character device that is required and missing
    "uverbs": "load the module ib_uverbs",
    "umad": "load the module ib_umad, or do not require it: iWARP NICs have none",
    "issm": "load the module ib_umad, or do not require it: only InfiniBand ports have one",
    "rdma_cm": "load the module rdma_ucm, or do not require it",
}


def compute(
    config: Config,
    snapshot: Snapshot,
    unhealthy: AbstractSet[str] = frozenset(),
    previous: Optional[Picture] = None,
) -> Picture:
    """What is offered now.

    ``unhealthy`` has the ids of NICs that health judged down. ``previous`` is the picture in force until now: NICs that
    it offers and the snapshot lacks stay Unhealthy, as long as the config still selects them; device tuples that did
    not change are taken over as they are, so that a rescan of 100,000 devices costs next to nothing.
    """
    before = {pool.config.resource: pool for pool in previous.pools} if previous else {}
    verdicts = _verdicts(config, snapshot, before)
    owners = _owners(config, verdicts)
    pools = tuple(
        _with_virtual_functions_told(
            _pool(pool, _nics_of(pool, verdicts, owners), owners, snapshot, unhealthy, before.get(pool.resource)),
            snapshot,
        )
        for pool in config.pools
    )
    return Picture(pools, snapshot.rdma_cm, _taken_by(pools), _refused(verdicts, owners, pools))


# --- who gets which NIC ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Verdict:
    """One NIC, and for each pool (by resource) None if its selectors take the NIC, else what refuses it."""

    nic: Nic
    by_pool: Mapping[str, Optional[str]]


def _verdicts(config: Config, snapshot: Snapshot, before: Mapping[str, Pool]) -> Tuple[_Verdict, ...]:
    """Of all NICs, sorted by id: those of the snapshot, and those that a pool offered and that are gone."""
    present = {nic.id for nic in snapshot.nics}
    gone: Dict[str, Nic] = {}
    offered: Dict[str, AbstractSet[str]] = {}
    for resource, pool in before.items():
        offered[resource] = {nic.id for nic in pool.nics}
        gone.update({nic.id: replace(nic, reasons=(GONE,)) for nic in pool.nics if nic.id not in present})
    found = []
    for nic in sorted((*snapshot.nics, *gone.values()), key=lambda nic: nic.id):
        by_pool: Dict[str, Optional[str]] = {}
        for pool_config in config.pools:
            resource = pool_config.resource
            forgotten = nic.id in gone and nic.id not in offered.get(resource, ())
            by_pool[resource] = GONE if forgotten else selectors.refusal(nic, pool_config.selectors)
        found.append(_Verdict(nic, by_pool))
    return tuple(found)


def _owners(config: Config, verdicts: Sequence[_Verdict]) -> Dict[str, Tuple[str, ...]]:
    """NIC id -> the resources that get it: the first exclusive pool alone, or all shared ones (DESIGN.md 5)."""
    owners: Dict[str, Tuple[str, ...]] = {}
    for verdict in verdicts:
        wanting = [pool for pool in config.pools if verdict.by_pool[pool.resource] is None]
        exclusive = [pool for pool in wanting if pool.mode == EXCLUSIVE]
        owners[verdict.nic.id] = tuple(pool.resource for pool in exclusive[:1] or wanting)
    return owners


def _nics_of(
    pool: PoolConfig, verdicts: Sequence[_Verdict], owners: Mapping[str, Tuple[str, ...]]
) -> Tuple[Tuple[Nic, ...], Tuple[Nic, ...]]:
    """The NICs that the pool gets, and those that it selects but another pool gets."""
    selected = [verdict.nic for verdict in verdicts if verdict.by_pool[pool.resource] is None]
    got = tuple(nic for nic in selected if pool.resource in owners[nic.id])
    return got, tuple(nic for nic in selected if pool.resource not in owners[nic.id])


def _taken_by(pools: Sequence[Pool]) -> Tuple[Tuple[str, Tuple[str, ...]], ...]:
    taken: Dict[str, List[str]] = {}
    for pool in pools:
        for nic in pool.nics:
            taken.setdefault(nic.id, []).append(pool.config.resource)
    return tuple((nic_id, tuple(resources)) for nic_id, resources in sorted(taken.items()))


def _refused(
    verdicts: Sequence[_Verdict], owners: Mapping[str, Tuple[str, ...]], pools: Sequence[Pool]
) -> Tuple[Tuple[str, str], ...]:
    """For each NIC that no pool gets: what refused it; with several pools, in each of them."""
    found = []
    for verdict in verdicts:
        if not owners[verdict.nic.id]:
            reasons = {resource: reason for resource, reason in verdict.by_pool.items() if reason}
            several = len(pools) > 1
            text = "; ".join(f"{resource}: {reason}" if several else reason for resource, reason in reasons.items())
            found.append((verdict.nic.id, text))
    return tuple(found)


# --- what a pool offers ---------------------------------------------------------------------------------------------


def _pool(
    config: PoolConfig,
    nics: Tuple[Tuple[Nic, ...], Tuple[Nic, ...]],
    owners: Mapping[str, Tuple[str, ...]],
    snapshot: Snapshot,
    unhealthy: AbstractSet[str],
    before: Optional[Pool],
) -> Pool:
    got, lost = nics
    seen = tuple(_as_seen_by(config, nic, snapshot) for nic in got)
    healthy = {nic.id for nic in seen if nic.usable and nic.id not in unhealthy}
    warnings = _overlap_warnings(config, seen, lost, owners) + _topology_warnings(config, seen)
    if config.mode == EXCLUSIVE:
        devices = tuple(
            Device(names.exclusive_id(nic.id), nic.id in healthy, (nic.id,), _numa(config, nic)) for nic in seen
        )
    elif config.rdma_hca_scope == "nic":
        devices, capped = _devices_per_nic(config, seen, healthy, before)
        warnings += capped
    else:
        devices = _devices_per_node(config, seen, healthy, before)
    return Pool(config, devices, seen, warnings)


def _as_seen_by(config: PoolConfig, nic: Nic, snapshot: Snapshot) -> Nic:
    """The NIC with the reasons added that make it unusable for this pool: character devices that the pool requires."""
    if nic.reasons == (GONE,):
        return nic
    present = {device.kind for device in nic.char_devices if device.present}
    if snapshot.rdma_cm is not None and snapshot.rdma_cm.present:
        present.add("rdma_cm")
    if nic.reasons:  # it has no uverbs either, and discovery says why in more detail
        present.add("uverbs")
    missing = [kind for kind in config.required_char_devices if kind not in present]
    added = tuple(f"requiredCharDevices: it has no {kind}; {_WITHOUT[kind]}" for kind in missing)
    return replace(nic, reasons=nic.reasons + added) if added else nic


def _devices_per_node(
    config: PoolConfig, nics: Sequence[Nic], healthy: AbstractSet[str], before: Optional[Pool]
) -> Tuple[Device, ...]:
    """``rdmaHcaMax`` devices, each of which opens all usable NICs; none when the pool has no NIC at all."""
    if not nics:
        return ()
    enough = all(nic.id in healthy for nic in nics) if config.health_policy == "all" else bool(healthy)
    usable = tuple(nic.id for nic in nics if nic.usable)
    # With no usable one the devices name all, so that Allocate's refusal can say what is wrong with them.
    opened = usable or tuple(nic.id for nic in nics)
    front = names.shared_front(config.resource_prefix, config.resource_name)
    return _numbered(front, config.rdma_hca_max, Device("", enough, opened), before.devices if before else ())


def _devices_per_nic(
    config: PoolConfig, nics: Sequence[Nic], healthy: AbstractSet[str], before: Optional[Pool]
) -> Tuple[Tuple[Device, ...], Tuple[str, ...]]:
    """``rdmaHcaMax`` devices of each NIC; fewer, with a warning, where they would be too many for kubelet."""
    fronts = [names.shared_front(config.resource_prefix, config.resource_name, nic.id) for nic in nics]
    numa = [_numa(config, nic) for nic in nics]
    count, warnings = config.rdma_hca_max, ()  # type: int, Tuple[str, ...]
    if message_size.message_size(fronts, count, numa) > message_size.MAX_MESSAGE:
        count = message_size.most(fronts, numa)
        warnings = (
            f"{len(nics)} NICs with rdmaHcaMax {config.rdma_hca_max} each are more devices than kubelet takes in one "
            f"message; offering {count} per NIC",
        )
    known: Dict[str, List[Device]] = {}
    for device in before.devices if before else ():
        known.setdefault(device.nic_ids[0], []).append(device)
    devices: List[Device] = []
    for nic, front, nodes in zip(nics, fronts, numa):
        pattern = Device("", nic.id in healthy, (nic.id,), nodes)
        devices += _numbered(front, count, pattern, tuple(known.get(nic.id, ())))
    return tuple(devices), warnings


def _numbered(front: str, count: int, pattern: Device, before: Tuple[Device, ...]) -> Tuple[Device, ...]:
    """Devices 0 to ``count - 1`` like the pattern; those of before, if they are the same."""
    first = replace(pattern, id=names.shared_id(front, 0))
    if len(before) == count and before[0] == first:
        return before
    ids = (names.shared_id(front, number) for number in range(count))
    return tuple(Device(identity, pattern.healthy, pattern.nic_ids, pattern.numa_nodes) for identity in ids)


def _numa(config: PoolConfig, nic: Nic) -> Tuple[int, ...]:
    """The node that kubelet is told: never -1, which would match no NUMA mask and get every pod refused."""
    if config.exclude_topology or nic.numa_node is None or nic.numa_node < 0:
        return ()
    return (nic.numa_node,)


# --- what the operator should know ----------------------------------------------------------------------------------


def _overlap_warnings(
    config: PoolConfig, nics: Sequence[Nic], lost: Sequence[Nic], owners: Mapping[str, Tuple[str, ...]]
) -> Tuple[str, ...]:
    found = [
        f"NIC {nic.id} ({nic.rdma_device}) goes to the exclusive pool {owners[nic.id][0]}, not here" for nic in lost
    ]
    for nic in nics:
        others = [resource for resource in owners[nic.id] if resource != config.resource]
        if others:
            found.append(f"NIC {nic.id} ({nic.rdma_device}) is shared with {', '.join(others)}")
    return tuple(found)


def _with_virtual_functions_told(pool: Pool, snapshot: Snapshot) -> Pool:
    """The pool, with a warning where its selectors mean VFs, which count only when ``functions`` says so.

    They mean VFs when they find nothing else, as a whole or by one of their device IDs: vendors give VFs their own.
    """
    selected = pool.config.selectors
    left_out = [nic for nic in snapshot.nics if selectors.only_by_default(nic, selected)]
    found = {nic.device_id for nic in snapshot.nics if selectors.refusal(nic, selected) is None}
    meant = [nic for nic in left_out if not found or nic.device_id in set(selected.device_ids) - found]
    if not meant:
        return pool
    listed = ", ".join(nic.rdma_device for nic in meant[:3]) + (", ..." if len(meant) > 3 else "")
    warning = f"the selectors find virtual functions ({listed}); these count only with functions: [vf]"
    return replace(pool, warnings=(*pool.warnings, warning))


def _topology_warnings(config: PoolConfig, nics: Sequence[Nic]) -> Tuple[str, ...]:
    """Kubelet uses devices without a NUMA node last, and never for an aligned pod, once any device has one."""
    if config.mode != EXCLUSIVE and config.rdma_hca_scope != "nic":
        return ()
    without = [nic.rdma_device for nic in nics if not _numa(config, nic)]
    if not without or len(without) == len(nics):
        return ()
    return (f"the NUMA node of {', '.join(without)} is unknown: pods with NUMA alignment never get them",)
