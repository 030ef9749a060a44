#!/usr/bin/python
# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May the mode of these nodes be changed now?"""

from __future__ import annotations

DOCUMENTATION = r"""
module: mode_gate
short_description: Tells whether pods still use a device plugin's resource on nodes, and which
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - >-
    The gate before a node's mode is changed or the plugin is removed. A pod that keeps a device over such a change
    goes on using NICs which kubelet then gives to others.
  - >-
    A pod blocks when it is bound to one of the nodes, has not ended (Succeeded and Failed have), and any container of
    it, init containers and sidecars included, asks for one of O(resources) by limit or request. Terminating pods
    block until they are gone.
  - >-
    A node that is not Ready is never clear: pods that were deleted by force vanish from the API while their
    containers may still hold a device, and nobody can tell.
  - If the pods can't all be listed, the module fails; that is not taken for a clear gate.
options:
  resources:
    description: The full names of the resources.
    type: list
    elements: str
    default: [rdma/hca]
  wait:
    description: Look again until the gate is clear or O(wait_timeout) is over.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most.
    type: int
    default: 300
  fail_when_blocked:
    description: Fail when the gate is not clear, with the pods in the message; else return RV(clear=false).
    type: bool
    default: true
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - lingjun.rdma.api
  - lingjun.rdma.api.nodes
  - lingjun.rdma.attributes.info
notes:
  - Needs the permissions to list nodes and pods (all namespaces).
  - The gate is a look at one moment. After it a pod may be started, so look again when the node is closed.
seealso:
  - module: lingjun.rdma.node_labels
"""

EXAMPLES = r"""
- name: Refuse to go on while a pod on the node uses an RDMA NIC
  lingjun.rdma.mode_gate:
    nodes: [e01-cn-zvp2tgykr08]

- name: Wait up to an hour for the training jobs of a pool to end
  lingjun.rdma.mode_gate:
    label_selectors: [pool=h20]
    resources: [rdma/hca, rdma/hca_fast]
    wait: true
    wait_timeout: 3600

- name: Only look
  lingjun.rdma.mode_gate:
    label_selectors: [alibabacloud.com/lingjun-worker=true]
    fail_when_blocked: false
  register: gate
"""

RETURN = r"""
clear:
  description: Whether every node is Ready and no pod blocks.
  returned: when nodes and pods could be read
  type: bool
blockers:
  description: The pods that block, sorted by node, namespace and name.
  returned: when nodes and pods could be read
  type: list
  elements: dict
  contains:
    namespace:
      description: The pod's namespace.
      type: str
    name:
      description: The pod's name.
      type: str
    node:
      description: The node that it is bound to.
      type: str
    phase:
      description: The pod's phase, V(Pending) or V(Running).
      type: str
    terminating:
      description: Whether it is being deleted.
      type: bool
    owner:
      description:
        - What makes the pod, like V(Job/rdma-bench) or V(Deployment/serving).
        - Empty for a bare pod, V(Node/...) for a static one.
      type: str
    resources:
      description: How much it takes of each of the resources.
      type: dict
    containers:
      description: The names of its containers that ask for one of the resources.
      type: list
      elements: str
nodes:
  description: The gate of each node.
  returned: when nodes and pods could be read
  type: list
  elements: dict
  contains:
    name:
      description: The node's name.
      type: str
    clear:
      description: Whether this node is Ready and no pod on it blocks.
      type: bool
    ready:
      description: Whether the node is Ready.
      type: bool
    not_ready:
      description: The node's own words for why it is not Ready; empty for a Ready one.
      type: str
    schedulable:
      description: False for a cordoned node.
      type: bool
    mode:
      description: The value of its label C(lingjun.rdma/mode); null without it.
      type: str
    blockers:
      description: How many pods on it block.
      type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lingjun.rdma.plugins.module_utils import _gate, _module, _names, _nodes, _pods
from ansible_collections.lingjun.rdma.plugins.module_utils._allocatable import check_resources
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue, Problem

# Between two looks, s; doubles up to the second one.
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 15.0


def look(client: Client, selected: _nodes.Selection, resources: tuple[str, ...]) -> _gate.Verdict:
    """The gate as it is now."""
    nodes = _nodes.read(client, selected).items
    blockers = _pods.bound_to(client, _nodes.names_of(nodes), lambda pod: _gate.blocker(pod, resources))
    return _gate.judge(nodes, blockers)


def work(client: Client, params: dict[str, Any], wait: bool) -> dict[str, Any]:
    """The module's result; raises Problem for a shut gate when ``fail_when_blocked``."""
    if params["wait_timeout"] < 0:
        raise InvalidValue(f"wait_timeout is {params['wait_timeout']}; give 0 s or more.")
    selected = _nodes.selection(params)
    resources = check_resources(params["resources"])
    deadline = client.clock() + params["wait_timeout"]
    pause = FIRST_PAUSE
    verdict = look(client, selected, resources)
    while wait and not verdict.clear and client.clock() < deadline:
        client.sleep(min(pause, max(0.0, deadline - client.clock())))
        pause = min(pause * 2, LONGEST_PAUSE)
        verdict = look(client, selected, resources)
    result: dict[str, Any] = {
        "changed": False,
        "clear": verdict.clear,
        "blockers": [item.as_dict() for item in verdict.blockers],
        "nodes": list(verdict.nodes),
    }
    if params["fail_when_blocked"] and not verdict.clear:
        raise Problem(verdict.message(resources), **result)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_module.common_options(),
            **_module.node_options(),
            "resources": {"type": "list", "elements": "str", "default": [_names.RESOURCE]},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 300},
            "fail_when_blocked": {"type": "bool", "default": True},
        },
        mutually_exclusive=[("nodes", "label_selectors")],
        required_one_of=[("nodes", "label_selectors")],
        supports_check_mode=True,
    )
    _module.run(module, lambda client: work(client, module.params, module.params["wait"] and not module.check_mode))


if __name__ == "__main__":
    main()
