# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a DaemonSet's rollout done, and what keeps it? Pure. Private to this collection.

The waits of other tools trust ``numberReady == desiredNumberScheduled``, which is true of 0 pods, of the state before
the controller has seen the change, and of pods of the old template.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils import _pods
from ansible_collections.lingjun.rdma.plugins.module_utils._allocatable import intended_node
from ansible_collections.lingjun.rdma.plugins.module_utils._pod_trouble import STARTING, Trouble, diagnose

# Nothing that happens in the cluster by itself ends these.
PERMANENT = ("ErrImageNeverPull", "InvalidImageName", "FailedCreate")
_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_GENERATION_LABEL = "pod-template-generation"  # the controller's copy of that annotation on each pod


@dataclass(frozen=True)
class DaemonSet:
    """What its object says."""

    name: str
    namespace: str
    uid: str
    observed: bool  # the controller has seen the latest spec, so the numbers are about it
    on_delete: bool
    template_generation: str  # "" where the server does not tell
    pod_selector: str
    node_selector: str  # the template's; "" for every node
    desired: int
    updated: int
    available: int

    @property
    def complete(self) -> bool:
        """Every node that is to have a pod has an available one, of the current template unless OnDelete."""
        current = self.on_delete or self.updated >= self.desired
        return self.observed and current and self.available >= self.desired


@dataclass(frozen=True)
class Pod:
    """A pod of the DaemonSet."""

    name: str
    node: str
    current: bool  # made of the current template
    trouble: Optional[Trouble]


@dataclass(frozen=True)
class Failure:
    """Why a node has no serving pod of the current template."""

    node: str
    pod: str  # "" when there is none
    reason: str
    message: str

    def as_dict(self) -> Dict[str, str]:
        """For the module's result."""
        return asdict(self)


def parse(raw: Mapping[str, Any]) -> DaemonSet:
    """From the API's JSON."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    return DaemonSet(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta.get("uid", ""),
        observed=status.get("observedGeneration", 0) >= meta.get("generation", 0),
        on_delete=(spec.get("updateStrategy") or {}).get("type") == "OnDelete",
        template_generation=(meta.get("annotations") or {}).get(_GENERATION_ANNOTATION, ""),
        pod_selector=label_selector(spec["selector"]),
        node_selector=label_selector({"matchLabels": spec["template"]["spec"].get("nodeSelector") or {}}),
        desired=status.get("desiredNumberScheduled", 0),
        updated=status.get("updatedNumberScheduled", 0),
        available=status.get("numberAvailable", 0),
    )


def label_selector(selector: Mapping[str, Any]) -> str:
    """A LabelSelector object as the query string's text."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or []:
        key, operator, values = item["key"], item["operator"], ",".join(item.get("values") or [])
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[operator]
        )
    return ",".join(parts)


def pod(raw: Mapping[str, Any], daemon_set: DaemonSet) -> Optional[Pod]:
    """From the API's JSON; None for a pod that another object owns."""
    meta = raw["metadata"]
    if not any(reference.get("uid") == daemon_set.uid for reference in meta.get("ownerReferences") or []):
        return None
    generation = (meta.get("labels") or {}).get(_GENERATION_LABEL, "")
    return Pod(
        name=meta["name"],
        node=(raw.get("spec") or {}).get("nodeName") or intended_node(raw),
        current=not daemon_set.template_generation or generation == daemon_set.template_generation,
        trouble=diagnose(raw),
    )


def failures(daemon_set: DaemonSet, pods: Sequence[Pod], nodes: Iterable[str], refused: str) -> List[Failure]:
    """What keeps the rollout, one entry a node, sorted by node.

    ``nodes`` are those that the node selector matches; ``refused`` is the message of a recent FailedCreate event or "".
    """
    found = [
        Failure(item.node, item.name, item.trouble.reason, item.trouble.message)
        for item in pods
        if item.trouble and (item.current or daemon_set.on_delete)
    ]
    served = {item.node for item in pods}
    missing = sorted(set(nodes) - served) if len(served) < daemon_set.desired or (refused and not served) else []
    if refused:
        found += [Failure(node, "", "FailedCreate", refused) for node in missing or ([""] if not served else [])]
    else:
        found += [Failure(node, "", "NoPod", "the DaemonSet has made no pod for the node yet") for node in missing]
    if not daemon_set.on_delete:
        found += [
            Failure(item.node, item.name, "Outdated", "the node still runs a pod of the old template")
            for item in pods
            if not item.current and item.node not in {other.node for other in pods if other.current}
        ]
    return sorted(found, key=lambda item: (item.node, item.pod))


def permanent(found: Iterable[Failure]) -> Tuple[Failure, ...]:
    """Those that waiting does not mend."""
    return tuple(item for item in found if item.reason in PERMANENT)


def starting(found: Iterable[Failure]) -> Tuple[Failure, ...]:
    """Pods that kubelet is starting; an event may say what it waits for (a ConfigMap, a volume)."""
    return tuple(item for item in found if item.pod and item.reason in STARTING)


def latest_event(events: Iterable[Mapping[str, Any]], after: str) -> str:
    """The message of the newest event whose last occurrence is not before ``after`` (RFC 3339, UTC); "" for none."""
    timed = [
        (
            (event.get("series") or {}).get("lastObservedTime")
            or event.get("lastTimestamp")
            or event.get("eventTime")
            or "",
            event,
        )
        for event in events
    ]
    recent = [(moment, " ".join((event.get("message") or "").split())) for moment, event in timed if moment >= after]
    return max(recent)[1] if recent else ""


def message(daemon_set: DaemonSet, found: Sequence[Failure], ended: str) -> str:
    """The sentence for a rollout that did not succeed; nodes with the same trouble share one. ``ended``: how."""
    numbers = f"{daemon_set.available} of {daemon_set.desired} pods available, {daemon_set.updated} updated"
    what = f"The rollout of DaemonSet {daemon_set.namespace}/{daemon_set.name} {ended} ({numbers})."
    places: Dict[Trouble, List[str]] = {}
    for item in found:
        place = (item.node or "no node yet") + (f" (pod {item.pod})" if item.pod else "")
        places.setdefault(Trouble(item.reason, item.message), []).append(place)
    troubles = [f"{_pods.shortened(nodes, separator=', ')}: {trouble}" for trouble, nodes in places.items()]
    return f"{what} {_pods.shortened(troubles)}." if troubles else what
