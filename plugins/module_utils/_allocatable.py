# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node offer what it should, and if not, why? Pure. Private to this collection.

A number in a node's status may be old: after a restart of kubelet, on a NotReady node, with no plugin pod, and for
some seconds after the plugin pod was replaced. It counts when the node is Ready, the mode's plugin pod is Ready (on
nodes that have a mode), and the number is there and was reported by kubelet since that pod started, seen together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils import _labels, _names, _pods, _quantity
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue
from ansible_collections.lingjun.rdma.plugins.module_utils._nodes import Node
from ansible_collections.lingjun.rdma.plugins.module_utils._pod_trouble import diagnose

FROM_MODE = "from_mode"

# s. Kubelet looks at its status every 10 s (nodeStatusUpdateFrequency), and writes it only when it has changed or 5
# minutes have gone by. So a number that stands this long after the pod's start is the pod's, though no report says so.
SETTLED = 15.0


@dataclass(frozen=True)
class Want:
    """What each node must offer: by its mode, or at least the given numbers."""

    from_mode: bool = True
    least: Mapping[str, int] = field(default_factory=dict)

    def of(self, node: Node, resource: str) -> int:
        """The least number of devices; by mode: 1, and 0 for a node that is being drained."""
        if self.from_mode:
            return 0 if node.mode == _names.DRAINING else 1
        return self.least.get(resource, 0)


@dataclass(frozen=True)
class PluginPod:
    """A pod of ours on a node."""

    name: str  # namespace/name
    node: str
    profile: str  # of its DaemonSet rdma-dp-<profile>; "" for another owner
    trouble: str  # "" when it is Ready
    started_at: str = ""  # of its youngest container, on the node's clock; "" where it does not say
    age: float = SETTLED  # s since then, by our own clocks


@dataclass(frozen=True)
class Short:
    """A node that offers less of a resource than it should (or, being drained, more)."""

    name: str
    resource: str
    have: int
    want: int
    reason: str

    def as_dict(self) -> Dict[str, Any]:
        """For the module's result."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name} offers {self.have} of {self.want} {self.resource}: {self.reason}"


def want(raw: Any, resources: Sequence[str]) -> Want:
    """The option ``wait_for``: ``from_mode``, a number for every resource, or one for each. Raises InvalidValue."""
    if raw == FROM_MODE:
        return Want()
    amounts = raw if isinstance(raw, dict) else dict.fromkeys(resources, raw)
    foreign = [name for name in amounts if name not in resources]
    if foreign:
        raise InvalidValue(
            f"wait_for names {', '.join(foreign)}, which the option resources ({', '.join(resources)}) does not have."
        )
    least = {}
    for name, amount in amounts.items():
        try:
            least[name] = _quantity.whole(amount)
        except ValueError as error:
            raise InvalidValue(f"wait_for: {error}; or write from_mode.") from error
        if least[name] < 0:
            raise InvalidValue(f"wait_for: {amount} is below 0.")
    return Want(from_mode=False, least=least)


def check_resources(resources: Sequence[str]) -> Tuple[str, ...]:
    """The option ``resources``; raises InvalidValue for what is no extended resource."""
    if not resources:
        raise InvalidValue("The option resources is empty; name at least one, like rdma/hca.")
    problems = [f"{name!r}: {problem}" for name in resources if (problem := _labels.resource_problem(name))]
    if problems:
        raise InvalidValue("The option resources has a name that can't be one: " + "; ".join(problems) + ".")
    return tuple(dict.fromkeys(resources))


def plugin_pod(pod: Mapping[str, Any]) -> Optional[PluginPod]:
    """A plugin pod from the API's JSON; None while it is bound to no node."""
    # A pod that no node took yet names its node in the affinity which the DaemonSet controller gave it.
    node = (pod.get("spec") or {}).get("nodeName") or intended_node(pod)
    if not node:
        return None
    kind, _slash, owner = _pods.owner(pod["metadata"]).partition("/")
    profile = (
        owner[len(_names.PLUGIN_PREFIX) :] if kind == "DaemonSet" and owner.startswith(_names.PLUGIN_PREFIX) else ""
    )
    trouble = diagnose(pod)
    return PluginPod(_pods.name_of(pod), node, profile, str(trouble) if trouble else "", started_at(pod))


def started_at(pod: Mapping[str, Any]) -> str:
    """When the youngest container of the pod began to run, as the API writes it; "" when none tells."""
    states = ((status.get("state") or {}) for status in (pod.get("status") or {}).get("containerStatuses") or [])
    return max((str((state.get("running") or {}).get("startedAt") or "") for state in states), default="")


def is_fresh(node: Node, pod: PluginPod) -> bool:
    """Whether the numbers in the node's status are from this pod and not from the one before it.

    When a plugin ends, kubelet counts its devices as gone at once; what it reports after the next one's start is the
    next one's doing. Both times are the node's own, to the second, and in one form, so they compare as text.
    """
    return not pod.started_at or node.reported_at >= pod.started_at or pod.age >= SETTLED


def intended_node(pod: Mapping[str, Any]) -> str:
    """The node for which the DaemonSet controller made the pod (affinity on metadata.name); "" for other pods."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    for term in terms:
        for match in term.get("matchFields") or []:
            if match.get("key") == "metadata.name" and match.get("values"):
                return str(match["values"][0])
    return ""


def settled_by_node_alone(node: Node, resources: Iterable[str], wanted: Want) -> bool:
    """What a watch of nodes can tell: Ready, and the numbers are there. The plugin's pod is another question."""
    return node.ready and all(_enough(node, resource, wanted) for resource in resources)


def _enough(node: Node, resource: str, wanted: Want) -> bool:
    have, least = node.allocatable.get(resource, 0), wanted.of(node, resource)
    if wanted.from_mode and node.mode is None:
        return False
    return have == 0 if wanted.from_mode and node.mode == _names.DRAINING else have >= least


def short_of(nodes: Iterable[Node], pods: Iterable[PluginPod], resources: Sequence[str], wanted: Want) -> List[Short]:
    """Every node and resource that does not count as offered, with the reason."""
    on_node: Dict[str, List[PluginPod]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(pod)
    result = []
    for node in nodes:
        for resource in resources:
            least = wanted.of(node, resource)
            reason = _reason(node, on_node.get(node.name, []), resource, wanted)
            if reason:
                have = node.allocatable.get(resource, 0) if node.ready else 0
                result.append(Short(node.name, resource, have, least, reason))
    return result


def _reason(node: Node, pods: Sequence[PluginPod], resource: str, wanted: Want) -> str:
    """The first cause in the order in which things must come about; "" when the node is as it should be."""
    enough = _enough(node, resource, wanted)
    nothing_wanted = not wanted.of(node, resource)
    if nothing_wanted and enough:
        return ""
    if not node.ready:
        return f"the node is not Ready ({node.not_ready_because}), so the numbers in its status may be old"
    capacity, have = node.capacity.get(resource, 0), node.allocatable.get(resource, 0)
    if node.mode is None:
        if enough:
            return ""
        foreign = f"; its capacity of {capacity} comes from another plugin" if capacity else ""
        return (
            f"the node has no label {_names.MODE_LABEL}, by which the plugin finds its nodes{foreign}:"
            " run site.yml, or set the label in the node pool"
        )
    if node.mode == _names.DRAINING:
        still = f"; it still offers {have}" if have else ""
        return (
            f"a mode switch is under way ({_names.MODE_LABEL}={_names.DRAINING}){still}: run switch_mode.yml again to"
            " take it up"
        )
    ours = [pod for pod in pods if pod.profile == node.mode]
    if not ours:
        return _no_pod(node, pods)
    if all(pod.trouble for pod in ours):
        return f"the plugin pod {ours[0].name} is not Ready: {ours[0].trouble}"
    pod = next(pod for pod in ours if not pod.trouble)
    if not is_fresh(node, pod):
        return (
            f"the plugin pod {pod.name} has just started, and kubelet has not reported since (it does so within 10 s):"
            " wait, or look again"
        )
    if enough:
        return ""
    if have == 0 and capacity:
        return (
            f"all {capacity} devices are unhealthy (capacity {capacity}, allocatable 0): probably no NIC is usable or"
            f" no port is up; the logs of {pod.name} say which"
        )
    if have == 0:
        return (
            f"the plugin pod {pod.name} is Ready but offers no device: probably no NIC of the node fits its config; its"
            " logs say what it found"
        )
    unhealthy = f", {capacity - have} of {capacity} devices are unhealthy" if capacity > have else ""
    return f"the plugin pod {pod.name} offers fewer devices than wanted{unhealthy}; see its logs"


def _no_pod(node: Node, pods: Sequence[PluginPod]) -> str:
    daemon_set = f"{_names.PLUGIN_PREFIX}{node.mode}"
    if pods:
        others = ", ".join(f"{pod.name} of profile {pod.profile or 'unknown'}" for pod in pods)
        return (
            f"the node's label says {_names.MODE_LABEL}={node.mode}, but its plugin pod is {others}:"
            f" deploy the profile {node.mode} (DaemonSet {daemon_set}) with site.yml"
        )
    return (
        f"no pod of the DaemonSet {daemon_set} runs there: deploy the profile {node.mode} with site.yml, or see kubectl"
        f" describe daemonset {daemon_set}"
    )


def row(node: Node, requested: Mapping[str, int], resources: Iterable[str]) -> Dict[str, Any]:
    """A node for the module's result; ``requested`` is what the pods on it ask for, per resource."""
    names = list(resources)
    return {
        "name": node.name,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "mode": node.mode,
        "allocatable": {name: node.allocatable.get(name, 0) for name in names},
        "capacity": {name: node.capacity.get(name, 0) for name in names},
        "requested": {name: requested.get(name, 0) for name in names},
        "free": {name: max(0, node.allocatable.get(name, 0) - requested.get(name, 0)) for name in names},
    }
