# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container gets for the device IDs that kubelet chose: a pure function of the picture.

No table of what is in use: kubelet asks again for IDs that it has given out already (restarts, init containers), and
never says when one is free (KUBELET.md rule 32). Every refusal ends a pod's admission, and its text is what the user
reads in the pod's status (rule 33): one sentence that names the ID.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdma_dp.core import names
from rdma_dp.core.model import EXCLUSIVE, Device, Nic, Picture, Pool


class Refusal(enum.Enum):
    """Why an ID is refused; the value is the gRPC status code's name."""

    INVALID = "INVALID_ARGUMENT"  # no ID, one ID twice, the ID of another resource
    UNKNOWN = "NOT_FOUND"  # an ID that nobody offers
    UNUSABLE = "FAILED_PRECONDITION"  # the ID is right, but its NIC can't be used now


class RefusedError(Exception):
    """The IDs can't be given out; the text is for the one whose pod failed."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True)
class Grant:
    """What one container gets."""

    nics: tuple[Nic, ...]
    nodes: tuple[str, ...]  # names below infiniband/: "uverbs0", "rdma_cm"
    env: Mapping[str, str]


class Index:
    """A picture, with its devices findable by ID. Made once per picture: Allocate must not search 100,000 devices."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self._pools = {pool.config.resource: pool for pool in picture.pools}
        self._devices = {
            resource: {device.id: device for device in pool.devices} for resource, pool in self._pools.items()
        }

    def pool(self, resource: str) -> Pool:
        """The resource's pool. Raises RefusedError when it is not offered (any more)."""
        try:
            return self._pools[resource]
        except KeyError:
            raise RefusedError(Refusal.UNKNOWN, f"{resource} is not offered by this node any more") from None

    def devices(self, resource: str, ids: Sequence[str]) -> list[Device]:
        """The devices of the IDs. Raises RefusedError for an ID that can't be one of a container's."""
        known = self._devices[self.pool(resource).config.resource]
        if not ids:
            raise RefusedError(Refusal.INVALID, f"{resource}: the request names no device; ask for at least one")
        found: dict[str, Device] = {}
        for identity in ids:
            if identity in found:
                raise RefusedError(Refusal.INVALID, f"{resource}: device {identity!r} is named twice in one request")
            if identity not in known:
                raise self._unknown(resource, identity)
            found[identity] = known[identity]
        return list(found.values())

    def grant(self, resource: str, ids: Sequence[str]) -> Grant:
        """What a container with these IDs gets. Raises RefusedError."""
        pool = self.pool(resource)
        devices = self.devices(resource, ids)
        for device in devices:
            if not device.healthy:
                why = _why(pool, device)
                raise RefusedError(Refusal.UNUSABLE, f"{resource}: device {device.id!r} is Unhealthy: {why}")
        wanted = {nic_id for device in devices for nic_id in device.nic_ids}
        nics = tuple(nic for nic in pool.nics if nic.id in wanted and nic.usable)
        if not nics:
            raise RefusedError(Refusal.UNUSABLE, f"{resource}: {_why(pool, devices[0])}")
        return Grant(nics, self._nodes(nics), self._env(pool, nics))

    def _unknown(self, resource: str, identity: str) -> RefusedError:
        for other, devices in self._devices.items():
            if identity in devices:
                text = f"{resource}: device {identity!r} belongs to {other}"
                return RefusedError(Refusal.INVALID, text)
        offered = self._pools[resource].devices
        span = f"{offered[0].id!r} to {offered[-1].id!r}" if offered else "none at present"
        text = f"{resource}: there is no device {identity!r}; the {len(offered)} offered ones are {span}"
        return RefusedError(Refusal.UNKNOWN, text)

    def _nodes(self, nics: Sequence[Nic]) -> tuple[str, ...]:
        nodes = [char.name for nic in nics for char in nic.char_devices if char.present]
        cm = self.picture.rdma_cm
        if cm is not None and cm.present:
            nodes.append(cm.name)
        return tuple(dict.fromkeys(nodes))

    def _env(self, pool: Pool, nics: Sequence[Nic]) -> dict[str, str]:
        rdma_devices = [nic.rdma_device for nic in nics]
        env = {
            names.devices_variable(pool.config.resource): ",".join(rdma_devices),
            names.pci_variable(pool.config.resource): ",".join(nic.pci_address for nic in nics if nic.pci_address),
        }
        # Of several exclusive pools none sets it (the config sees to that): kubelet would keep one value (rule 36).
        if pool.config.mode == EXCLUSIVE and pool.config.nccl:
            env["NCCL_IB_HCA"] = "=" + ",".join(rdma_devices)  # "=": these names exactly, not names that begin so
        return env


def _why(pool: Pool, device: Device) -> str:
    """Why a device can't be used, from its NICs."""
    nics = [nic for nic in pool.nics if nic.id in device.nic_ids]
    reasons = [f"NIC {nic.id} ({nic.rdma_device}): {reason}" for nic in nics for reason in nic.reasons]
    if reasons:
        return "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")
    if not nics:
        return f"its NIC is gone ({', '.join(device.nic_ids)})" if device.nic_ids else "the node has no NIC for it"
    return f"no port is active on {', '.join(nic.id for nic in nics)}"
