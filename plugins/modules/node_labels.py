#!/usr/bin/python
# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels, taints and schedulability of many nodes in one task."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Sets labels, taints and schedulability of many nodes in one task
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Reads the nodes first and patches only those that differ, over eight connections.
  - Touches only the labels and taints that it is given. Each node gets one patch, so a node is never half changed.
  - >-
    Safe against others who change the same node: where the outcome depends on what was read (O(taints), O(only_if)),
    the server refuses a patch based on an old state, and the module reads the node again.
options:
  labels:
    description:
      - Labels to set; a value of null removes the label.
      - Whole numbers and booleans are taken as their text, V(true) as V("true"). Quote other numbers.
    type: dict
  taints:
    description: Taints to set or to remove.
    type: list
    elements: dict
    suboptions:
      key:
        description: The taint's key.
        type: str
        required: true
      value:
        description: The taint's value; another value of the same key and effect is replaced.
        type: str
      effect:
        description:
          - The taint's effect.
          - Required with O(taints[].state=present); without it V(absent) removes all effects of the key.
        type: str
        choices: [NoSchedule, PreferNoSchedule, NoExecute]
      state:
        description: Whether the node is to have it. V(absent) looks at key and effect, whatever the value.
        type: str
        choices: [present, absent]
        default: present
  schedulable:
    description: V(false) cordons the nodes, V(true) uncordons them.
    type: bool
  only_if:
    description:
      - Labels that a node must have now; a value of null means that it must not have the label.
      - Other nodes are left alone and returned in RV(skipped_nodes).
    type: dict
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - lingjun.rdma.api
  - lingjun.rdma.api.nodes
  - lingjun.rdma.attributes.changes
notes:
  - Needs the permissions to list and patch nodes.
seealso:
  - module: lingjun.rdma.mode_gate
"""

EXAMPLES = r"""
- name: Give a mode to the Lingjun nodes that have none
  lingjun.rdma.node_labels:
    label_selectors: [alibabacloud.com/lingjun-worker=true]
    labels:
      lingjun.rdma/mode: shared
    only_if:
      lingjun.rdma/mode: null

- name: Close a node for a mode switch
  lingjun.rdma.node_labels:
    nodes: [e01-cn-zvp2tgykr08]
    labels:
      lingjun.rdma/mode: draining
    schedulable: false

- name: Replace a taint
  lingjun.rdma.node_labels:
    label_selectors: [pool=h20]
    taints:
      - {key: maintenance, effect: NoSchedule, state: absent}
      - {key: team, value: research, effect: NoSchedule}
"""

RETURN = r"""
changed_nodes:
  description: The nodes that were changed; in check mode those that would be.
  returned: when the nodes could be read
  type: list
  elements: str
unchanged_nodes:
  description: The nodes that were as wanted.
  returned: when the nodes could be read
  type: list
  elements: str
skipped_nodes:
  description: The nodes that O(only_if) left out.
  returned: when the nodes could be read
  type: list
  elements: str
failed_nodes:
  description: The nodes that could not be changed, or were not tried after an error that concerns all.
  returned: when a patch failed
  type: list
  elements: dict
  contains:
    name:
      description: The node's name.
      type: str
    reason:
      description: Why.
      type: str
"""

import threading
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lingjun.rdma.plugins.module_utils import _labels, _module, _node_changes, _nodes, _pods
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import NODES
from ansible_collections.lingjun.rdma.plugins.module_utils._auth import CONNECTIONS
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import (
    ApiError,
    Conflict,
    InvalidValue,
    NotFound,
    Problem,
    UnknownNodes,
)
from ansible_collections.lingjun.rdma.plugins.module_utils._parallel import each

# Somebody who changes one node that often in a row is a controller at war with us; better to say so.
ATTEMPTS = 6
FIRST_PAUSE = 0.1  # s, doubles


@dataclass(frozen=True)
class Outcome:
    """What became of one node: exactly one of the three is set, or none for a node that needed nothing."""

    name: str
    change: _node_changes.Change | None = None
    skipped: bool = False
    failure: str = ""


class Patcher:
    """Applies what is wanted to nodes, from several threads."""

    def __init__(self, client: Client, wanted: _node_changes.Wanted, dry_run: bool) -> None:
        self.client = client
        self.wanted = wanted
        self.dry_run = dry_run
        self.stop = threading.Event()  # set after an error that the next node would meet too
        self.reason = ""

    def apply(self, node: _nodes.Node) -> Outcome:
        """Bring one node to the wanted state."""
        if self.stop.is_set():
            return Outcome(node.name, failure=f"not tried: {self.reason}")
        try:
            return self._apply(node)
        except (NotFound, UnknownNodes):
            return Outcome(node.name, failure="the node was removed from the cluster meanwhile")
        except ApiError as error:
            if error.status in (401, 403):
                self._stop(str(error))
            return Outcome(node.name, failure=str(error))
        except Problem as error:
            self._stop(str(error))
            return Outcome(node.name, failure=str(error))

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.stop.set()

    def _apply(self, node: _nodes.Node) -> Outcome:
        sent: _node_changes.Change | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                self.client.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
                node = _nodes.read(self.client, _nodes.Selection(names=(node.name,))).items[0]
            change = _node_changes.plan(node, self.wanted)
            if change is None:
                # Right already; by us, when the answer to an earlier patch was lost and its repetition refused.
                return Outcome(node.name, change=sent)
            if not _node_changes.concerns(node, self.wanted):
                return Outcome(node.name, change=sent, skipped=sent is None)
            if self.dry_run:
                return Outcome(node.name, change=change)
            try:
                self.client.merge_patch(NODES, node.name, change.patch)
            except Conflict as conflict:
                sent = change if conflict.resent else None
                continue
            return Outcome(node.name, change=change)
        return Outcome(
            node.name, failure=f"somebody else changed it each time before our patch came, {ATTEMPTS} times in a row"
        )


def validated(params: dict[str, Any]) -> _node_changes.Wanted:
    """The options, normalised. Raises InvalidValue with all that is wrong in them."""
    labels, problems = _labels.labels(params["labels"] or {}, "labels")
    only_if, more = _labels.labels(params["only_if"] or {}, "only_if")
    taints = params["taints"] or []
    problems += more + _labels.taint_problems(taints)
    if not labels and not taints and params["schedulable"] is None and not problems:
        problems.append("there is nothing to do: give labels, taints or schedulable")
    if problems:
        raise InvalidValue("Nothing was changed. " + "; ".join(problems) + ".", problems=problems)
    return _node_changes.Wanted(labels, tuple(taints), params["schedulable"], only_if)


def work(client: Client, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The module's result; raises Problem when a node could not be changed."""
    wanted = validated(params)
    # Labels are metadata, which the server sends without the rest: a fifth of the bytes.
    metadata_only = not wanted.taints and wanted.schedulable is None
    nodes = _nodes.read(client, _nodes.selection(params), metadata_only=metadata_only).items
    concerned = [node for node in nodes if _node_changes.concerns(node, wanted)]
    skipped = [node.name for node in nodes if not _node_changes.concerns(node, wanted)]
    different = [node for node in concerned if _node_changes.plan(node, wanted)]
    outcomes = each(Patcher(client, wanted, check_mode).apply, different, CONNECTIONS)

    changes = [outcome.change for outcome in outcomes if outcome.change]
    failed = [{"name": outcome.name, "reason": outcome.failure} for outcome in outcomes if outcome.failure]
    skipped += [outcome.name for outcome in outcomes if outcome.skipped]
    touched = {change.node for change in changes} | {item["name"] for item in failed} | set(skipped)
    result: dict[str, Any] = {
        "changed": bool(changes),
        "changed_nodes": sorted(change.node for change in changes),
        "unchanged_nodes": sorted(node.name for node in nodes if node.name not in touched),
        "skipped_nodes": sorted(skipped),
        "diff": _node_changes.diff(changes),
    }
    if failed:
        listed = _pods.shortened(
            f"{item['name']}: {item['reason']}" for item in failed if not item["reason"].startswith("not tried")
        )
        raise Problem(
            f"{len(failed)} of {len(different)} nodes that differ could not be changed ({len(changes)} were): {listed}",
            failed_nodes=failed,
            **result,
        )
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_module.common_options(),
            **_module.node_options(),
            "labels": {"type": "dict"},
            "taints": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "key": {"type": "str", "required": True, "no_log": False},
                    "value": {"type": "str"},
                    "effect": {"type": "str", "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                },
            },
            "schedulable": {"type": "bool"},
            "only_if": {"type": "dict"},
        },
        mutually_exclusive=[("nodes", "label_selectors")],
        required_one_of=[("nodes", "label_selectors")],
        supports_check_mode=True,
    )
    _module.run(module, lambda client: work(client, module.params, module.check_mode))


if __name__ == "__main__":
    main()
