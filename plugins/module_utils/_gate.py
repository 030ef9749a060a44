# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate: may a node's mode be changed now? Pure. Private to this collection.

A pod blocks when it is bound to one of the nodes, has not ended (Succeeded and Failed have), and any container of it
(init, sidecar and ordinary) asks for one of the resources by limit or request; terminating pods block until they are
gone. A NotReady node is never clear: pods deleted by force vanish from the API while their containers may still hold a
device.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils import _pods
from ansible_collections.lingjun.rdma.plugins.module_utils._nodes import Node

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Blocker:
    """A pod that keeps the gate shut."""

    namespace: str
    name: str
    node: str
    phase: str
    terminating: bool
    owner: str  # Kind/name, "" for a bare pod
    resources: Mapping[str, int]  # what the scheduler counts for the pod
    containers: Tuple[str, ...]  # those that ask

    def as_dict(self) -> Dict[str, Any]:
        """For the module's result."""
        return {**asdict(self), "containers": list(self.containers), "resources": dict(self.resources)}

    def __str__(self) -> str:
        state = "terminating" if self.terminating else self.phase
        of = f" of {self.owner}" if self.owner else ""
        return f"{self.namespace}/{self.name}{of} on {self.node} ({state})"


def blocker(pod: Mapping[str, Any], resources: Sequence[str]) -> Optional[Blocker]:
    """The pod as a blocker, or None when it does not block. ``pod`` is the API's JSON."""
    spec, status, meta = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    if not spec.get("nodeName") or status.get("phase") in _ENDED:
        return None
    asking = [
        container.get("name", "")
        for container in _pods.containers(spec)
        if any(_pods.asks(container, resource) > 0 or _limit(container, resource) for resource in resources)
    ]
    if not asking:
        return None
    amounts = {resource: _pods.effective_request(spec, resource) for resource in resources}
    return Blocker(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        node=spec["nodeName"],
        phase=status.get("phase") or "Pending",
        terminating=bool(meta.get("deletionTimestamp")),
        owner=_pods.owner(meta),
        resources={resource: amount for resource, amount in amounts.items() if amount},
        containers=tuple(asking),
    )


def _limit(container: Mapping[str, Any], resource: str) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return _pods.asks({"resources": {"limits": limits}}, resource) > 0


@dataclass(frozen=True)
class Verdict:
    """The gate over all nodes."""

    nodes: Tuple[Dict[str, Any], ...]  # name, clear, ready, schedulable, mode, blockers (how many), reason
    blockers: Tuple[Blocker, ...]

    @property
    def clear(self) -> bool:
        """True only when every node is."""
        return all(node["clear"] for node in self.nodes)

    def message(self, resources: Iterable[str]) -> str:
        """Why a gate that is not clear is shut, with the pods and the NotReady nodes, and what to do."""
        sentences = []
        if self.blockers:
            pods = "1 pod asks" if len(self.blockers) == 1 else f"{len(self.blockers)} pods ask"
            sentences.append(
                f"{pods} for {', '.join(resources)}: {_pods.shortened(map(str, self.blockers))}. Wait for them, or"
                " delete what owns them."
            )
        not_ready = [f"{node['name']} ({node['not_ready']})" for node in self.nodes if not node["ready"]]
        if not_ready:
            sentences.append(
                f"Not Ready, so nobody can tell what still runs there: {_pods.shortened(not_ready)}. Repair the node,"
                " or leave it out."
            )
        return "The gate is not clear. " + " ".join(sentences)


def judge(nodes: Sequence[Node], blockers: Iterable[Blocker]) -> Verdict:
    """The verdict over ``nodes``, given the blockers on them (others are ignored)."""
    names = {node.name for node in nodes}
    held = sorted(
        (item for item in blockers if item.node in names), key=lambda item: (item.node, item.namespace, item.name)
    )
    count: Dict[str, int] = {}
    for item in held:
        count[item.node] = count.get(item.node, 0) + 1
    rows: List[Dict[str, Any]] = [
        {
            "name": node.name,
            "clear": node.ready and not count.get(node.name),
            "ready": node.ready,
            "not_ready": node.not_ready_because,
            "schedulable": node.schedulable,
            "mode": node.mode,
            "blockers": count.get(node.name, 0),
        }
        for node in nodes
    ]
    return Verdict(tuple(rows), tuple(held))
