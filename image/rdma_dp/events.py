# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator should read in the log when one picture follows another: a pure comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rdma_dp.core.model import Nic, Picture, Pool, Snapshot


@dataclass(frozen=True)
class Event:
    """One line of the log."""

    level: str  # a method of logs.Log
    message: str
    fields: tuple[tuple[str, object], ...] = ()


def between_snapshots(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    """NICs that came, went, or changed in whether they can be used; new warnings about the machine."""
    old, new = {nic.id: nic for nic in before.nics}, {nic.id: nic for nic in after.nics}
    for nic in (old[key] for key in old.keys() - new.keys()):
        yield Event("warning", "a NIC is gone", _nic(nic))
    for nic in after.nics:
        known = old.get(nic.id)
        if known is None:
            yield Event("info", "found a NIC", (*_nic(nic), ("driver", nic.driver), ("numa", nic.numa_node)))
        if nic.reasons and (known is None or known.reasons != nic.reasons):
            yield Event("warning", "a NIC can't be used: " + "; ".join(nic.reasons), _nic(nic))
        if known is not None and known.reasons and not nic.reasons:
            yield Event("info", "a NIC can be used again", _nic(nic))
        if known is not None and known.rdma_device != nic.rdma_device:
            yield Event("info", "a NIC's RDMA device has a new name", (*_nic(nic), ("before", known.rdma_device)))
    for warning in after.warnings:
        if warning not in before.warnings:
            yield Event("warning", warning)


def between_pictures(before: Picture, after: Picture) -> Iterator[Event]:
    """Resources whose devices came, went, or changed health; new warnings about pools."""
    old = {pool.config.resource: pool for pool in before.pools}
    for pool in after.pools:
        known = old.pop(pool.config.resource, None)
        if known is None or _count(known) != _count(pool):
            yield from _offer(pool, known)
        for warning in pool.warnings:
            if known is None or warning not in known.warnings:
                yield Event("warning", warning, (("resource", pool.config.resource),))
    for resource in old:
        yield Event("info", "the resource is not in the config any more", (("resource", resource),))


def _offer(pool: Pool, before: Pool | None) -> Iterator[Event]:
    fields: tuple[tuple[str, object], ...] = (
        ("resource", pool.config.resource),
        ("devices", len(pool.devices)),
        ("healthy", pool.healthy),
        ("nics", len(pool.nics)),
    )
    if not pool.devices:
        if before is None:
            yield Event("info", "no NIC of this node is for the resource; it is not offered", fields[:1])
    elif pool.healthy < len(pool.devices):
        yield Event("warning", "some devices of the resource are Unhealthy", fields)
    else:
        yield Event("info", "the resource is offered", fields)


def _count(pool: Pool) -> tuple[int, int]:
    return len(pool.devices), pool.healthy


def _nic(nic: Nic) -> tuple[tuple[str, object], ...]:
    return ("nic", nic.id), ("rdma_device", nic.rdma_device)
