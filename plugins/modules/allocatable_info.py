#!/usr/bin/python
# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes offer of a resource, and why some offer less than they should."""

from __future__ import annotations

DOCUMENTATION = r"""
module: allocatable_info
short_description: What nodes offer of a device plugin's resource, and why some offer too little
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Reads what nodes offer of extended resources such as V(rdma/hca), what pods have requested of it, and what is free.
  - For each node that falls short of O(wait_for), finds out and returns the reason.
  - >-
    Can wait until all nodes offer what they should. It waits by a watch, so it ends within a moment of the cluster
    being ready.
  - >-
    A number in a node's status may be old, after a restart of kubelet for example. It counts only when the node is
    Ready and, on a node with the label C(lingjun.rdma/mode), the plugin pod of that mode is Ready too, seen together.
options:
  resources:
    description: The full names of the resources.
    type: list
    elements: str
    default: [rdma/hca]
  wait_for:
    description:
      - What each node must offer (its allocatable) of each resource.
      - >-
        V(from_mode) asks for what the node's label C(lingjun.rdma/mode) promises: with V(draining) exactly 0, with
        any other mode at least 1. A node without the label falls short.
      - A quantity such as V(1000), V(1k) or V(4) asks for at least that much of every resource, whatever the label.
      - A dictionary from resource to quantity asks for single resources; those that it does not name may be anything.
    type: raw
    default: from_mode
  wait:
    description:
      - Wait until no node falls short; fail when O(wait_timeout) is over before that.
      - Without it the module reports what is there now, and never fails because a node falls short.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most.
    type: int
    default: 120
  plugin_namespace:
    description: The namespace of the plugin's DaemonSets C(rdma-dp-<profile>).
    type: str
    default: kube-system
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - lingjun.rdma.api
  - lingjun.rdma.api.nodes
  - lingjun.rdma.attributes.info
notes:
  - >-
    Needs the permissions to list nodes and pods (all namespaces), and to watch nodes for O(wait=true).
seealso:
  - module: lingjun.rdma.rollout
  - module: lingjun.rdma.mode_gate
"""

EXAMPLES = r"""
- name: Wait until every Lingjun node offers what its mode promises
  lingjun.rdma.allocatable_info:
    label_selectors: [alibabacloud.com/lingjun-worker=true]
    wait: true
    wait_timeout: 180

- name: Wait until two nodes offer 1,000 devices each
  lingjun.rdma.allocatable_info:
    nodes: [e01-cn-zvp2tgykr08, e01-cn-zvp2tgykr09]
    wait_for: 1k
    wait: true

- name: See which nodes fall short of four NICs, without waiting
  lingjun.rdma.allocatable_info:
    label_selectors: [lingjun.rdma/mode=exclusive]
    wait_for: {rdma/hca: 4}
  register: offered

- name: Show why
  ansible.builtin.debug:
    msg: "{{ offered.short_of }}"
"""

RETURN = r"""
nodes:
  description: What each node offers.
  returned: when the nodes could be read
  type: list
  elements: dict
  contains:
    name:
      description: The node's name.
      type: str
    ready:
      description: Whether the node is Ready.
      type: bool
    schedulable:
      description: False for a cordoned node.
      type: bool
    mode:
      description: The value of its label C(lingjun.rdma/mode); null without it.
      type: str
    allocatable:
      description: How many healthy devices of each resource the node's status shows, whether they count or not.
      type: dict
    capacity:
      description: How many devices of each resource the node's status shows, unhealthy ones included.
      type: dict
    requested:
      description: How many devices of each resource the pods on the node ask for that have not ended.
      type: dict
    free:
      description: RV(nodes[].allocatable) without RV(nodes[].requested), not below 0.
      type: dict
  sample:
    - name: e01-cn-zvp2tgykr08
      ready: true
      schedulable: true
      mode: shared
      allocatable: {rdma/hca: 1000}
      capacity: {rdma/hca: 1000}
      requested: {rdma/hca: 1}
      free: {rdma/hca: 999}
short_of:
  description: The nodes that fall short of O(wait_for).
  returned: when the nodes could be read
  type: list
  elements: dict
  contains:
    name:
      description: The node's name.
      type: str
    resource:
      description: The resource.
      type: str
    have:
      description: What counts as offered; 0 while the node is not Ready.
      type: int
    want:
      description: What was asked for.
      type: int
    reason:
      description: Why, in a sentence with the remedy.
      type: str
"""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lingjun.rdma.plugins.module_utils import _allocatable, _module, _names, _nodes, _pods
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import NODES, PODS
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client, Listing
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import Expired, InvalidValue, Problem

# Between two looks at plugin pods that are not ready yet, s; doubles up to the second one.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 8.0


class Task:
    """One run of the module."""

    def __init__(self, client: Client, params: dict[str, Any]) -> None:
        self.client = client
        self.selected = _nodes.selection(params)
        self.resources = _allocatable.check_resources(params["resources"])
        self.wanted = _allocatable.want(params["wait_for"], self.resources)
        self.namespace = params["plugin_namespace"]
        self.first_seen: dict[tuple[str, str], float] = {}

    def parse(self, raw: dict[str, Any]) -> _nodes.Node:
        return _nodes.parse(raw, self.resources)

    def look(self) -> tuple[Listing[_nodes.Node], list[_allocatable.Short]]:
        """Nodes, and then the plugin's pods: what is short at this moment."""
        listing = _nodes.read(self.client, self.selected, self.parse)
        pods: list[_allocatable.PluginPod] = []
        if any(node.mode for node in listing.items):
            pods = self.client.list(
                PODS, _allocatable.plugin_pod, namespace=self.namespace, label_selector=_names.PLUGIN_SELECTOR
            ).items
        pods = [replace(pod, age=self.age(pod)) for pod in pods]
        return listing, _allocatable.short_of(listing.items, pods, self.resources, self.wanted)

    def age(self, pod: _allocatable.PluginPod) -> float:
        """Seconds since the pod's start. The node's clock may differ from ours, so what we saw ourselves counts too."""
        now = self.client.clock()
        return max(now - self.first_seen.setdefault((pod.name, pod.started_at), now), seconds_since(pod.started_at))

    def wait(self, deadline: float) -> tuple[Listing[_nodes.Node], list[_allocatable.Short]]:
        """Look until nothing is short or the deadline (on the client's clock) is over; returns the last look."""
        pause = FIRST_PAUSE
        while True:
            listing, short = self.look()
            if not short or self.client.clock() >= deadline:
                return listing, short
            if not self.nodes_settle(listing, deadline):
                # Only pods are missing; or the watch ended early, and must not turn into a busy loop.
                self.client.sleep(max(0.0, min(pause, deadline - self.client.clock())))
                pause = min(pause * 2, LONGEST_PAUSE)

    def nodes_settle(self, listing: Listing[_nodes.Node], deadline: float) -> bool:
        """Watch until every node by itself is as wanted. False when that was so before, or the watch ended early."""
        unsettled = {node.name for node in listing.items if not self.settled(node)}
        if not unsettled:
            return False
        names = self.selected.names
        events = self.client.watch(
            NODES,
            listing.resource_version,
            deadline,
            label_selector=self.selected.selector,
            field_selector=f"metadata.name={names[0]}" if len(names) == 1 else "",
        )
        try:
            for kind, raw in events:
                name = raw["metadata"]["name"]
                if names and name not in names:
                    continue
                if kind != "DELETED" and not self.settled(self.parse(raw)):
                    unsettled.add(name)
                    continue
                unsettled.discard(name)
                if not unsettled:
                    return True
        except Expired:
            pass
        return False

    def settled(self, node: _nodes.Node) -> bool:
        return _allocatable.settled_by_node_alone(node, self.resources, self.wanted)

    def requested(self, nodes: list[_nodes.Node]) -> dict[str, dict[str, int]]:
        """Node name to resource to what the pods on it ask for."""

        def reduce(pod: dict[str, Any]) -> tuple[str, dict[str, int]] | None:
            amounts = {name: _pods.effective_request(pod["spec"], name) for name in self.resources}
            return (pod["spec"]["nodeName"], amounts) if any(amounts.values()) else None

        total: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(self.resources, 0))
        for node, amounts in _pods.bound_to(self.client, _nodes.names_of(nodes), reduce):
            for name, amount in amounts.items():
                total[node][name] += amount
        return total


def seconds_since(moment: str) -> float:
    """Since a time as the API writes it; 0 for what is none."""
    try:
        then = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return 0.0
    return (datetime.now(timezone.utc) - then).total_seconds()


def work(client: Client, params: dict[str, Any], wait: bool) -> dict[str, Any]:
    """The module's result; raises Problem when the wait was in vain."""
    task = Task(client, params)
    if params["wait_timeout"] < 0:
        raise InvalidValue(f"wait_timeout is {params['wait_timeout']}; give 0 s or more.")
    listing, short = task.wait(client.clock() + params["wait_timeout"]) if wait else task.look()
    requested = task.requested(listing.items)
    result: dict[str, Any] = {
        "changed": False,
        "nodes": [_allocatable.row(node, requested.get(node.name, {}), task.resources) for node in listing.items],
        "short_of": [item.as_dict() for item in short],
    }
    if wait and short:
        count = len({item.name for item in short})
        raise Problem(
            f"After {params['wait_timeout']} s {count} of {len(listing.items)} nodes don't offer what they should:"
            f" {_pods.shortened(map(str, short))}.",
            **result,
        )
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_module.common_options(),
            **_module.node_options(),
            "resources": {"type": "list", "elements": "str", "default": [_names.RESOURCE]},
            "wait_for": {"type": "raw", "default": _allocatable.FROM_MODE},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 120},
            "plugin_namespace": {"type": "str", "default": _names.PLUGIN_NAMESPACE},
        },
        mutually_exclusive=[("nodes", "label_selectors")],
        required_one_of=[("nodes", "label_selectors")],
        supports_check_mode=True,
    )
    _module.run(module, lambda client: work(client, module.params, module.params["wait"] and not module.check_mode))


if __name__ == "__main__":
    main()
