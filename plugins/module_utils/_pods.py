# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods: which are bound to nodes, what they ask for, who owns them. Private to this collection."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar

from ansible_collections.lingjun.rdma.plugins.module_utils import _quantity
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import PODS
from ansible_collections.lingjun.rdma.plugins.module_utils._auth import CONNECTIONS
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._parallel import each

T = TypeVar("T")

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
# Measured on a real API server: a query for one node costs 4 to 5 ms, a pod of a full list 0.35 ms.
_PODS_FOR_THE_PRICE_OF_ONE_NODE = 12
_ALWAYS_NODE_BY_NODE = 8


def bound_to(client: Client, nodes: Sequence[str], reduce: Callable[[Dict[str, Any]], Optional[T]]) -> List[T]:
    """What ``reduce`` keeps of all pods that are bound to one of ``nodes`` and have not ended.

    Asks node by node or lists all pods, whichever is cheaper; for many nodes one short request finds that out.
    """
    if len(nodes) <= _ALWAYS_NODE_BY_NODE or len(nodes) * _PODS_FOR_THE_PRICE_OF_ONE_NODE <= client.count(PODS):

        def ask(node: str) -> List[T]:
            return client.list(PODS, reduce, field_selector=f"spec.nodeName={node},{NOT_ENDED}").items

        return [kept for answer in each(ask, nodes, CONNECTIONS) for kept in answer]
    wanted = frozenset(nodes)

    def pick(raw: Dict[str, Any]) -> Optional[T]:
        return reduce(raw) if (raw.get("spec") or {}).get("nodeName") in wanted else None

    return client.list(PODS, pick, field_selector=f"spec.nodeName!=,{NOT_ENDED}").items


def asks(container: Mapping[str, Any], resource: str) -> Fraction:
    """How much of ``resource`` a container asks for: its request, else its limit (the API makes them equal)."""
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        if resource in (resources.get(kind) or {}):
            return _quantity.parse(resources[kind][resource])
    return Fraction(0)


def containers(spec: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """Init containers (sidecars among them) and ordinary ones."""
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def effective_request(spec: Mapping[str, Any], resource: str) -> int:
    """What the scheduler counts for a pod: sidecars stay, other init containers run one after another before the rest.

    Rule: k8s.io/component-helpers/resource PodRequests: the larger of (all ordinary containers + all sidecars) and,
    over each init container, (itself + the sidecars before it).
    """
    sidecars = Fraction(0)
    peak = Fraction(0)
    for container in spec.get("initContainers") or []:
        amount = asks(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += amount
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + amount)
    ordinary = sum((asks(container, resource) for container in spec.get("containers") or []), Fraction(0))
    return math.ceil(max(peak, ordinary + sidecars))


def owner(meta: Mapping[str, Any]) -> str:
    """``Kind/name`` of what makes the pod: the Deployment behind a ReplicaSet, the Node of a static pod; "": none."""
    reference: Optional[Mapping[str, Any]] = next(
        (item for item in meta.get("ownerReferences") or [] if item.get("controller")), None
    )
    if reference is None:
        return ""
    kind, name = reference.get("kind", ""), reference.get("name", "")
    suffix = "-" + (meta.get("labels") or {}).get("pod-template-hash", "")
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return f"Deployment/{name[: -len(suffix)]}"
    return f"{kind}/{name}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    """The Ready condition is true, and the pod is not on its way out."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return not pod["metadata"].get("deletionTimestamp") and any(
        item.get("type") == "Ready" and item.get("status") == "True" for item in conditions
    )


def name_of(pod: Mapping[str, Any]) -> str:
    """``namespace/name``."""
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def shortened(items: Iterable[str], most: int = 10, separator: str = "; ") -> str:
    """A list for a message: the first few, and how many more there are."""
    texts = list(items)
    return separator.join([*texts[:most], *([f"and {len(texts) - most} more"] if len(texts) > most else [])])
