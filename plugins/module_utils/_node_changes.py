# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What node_labels would change on a node, and the one patch that does it. Pure. Private to this collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils._nodes import Node


@dataclass(frozen=True)
class Wanted:
    """What the task asks for, validated; None or empty: leave it as it is."""

    labels: Mapping[str, Optional[str]] = field(default_factory=dict)  # None removes
    taints: Tuple[Mapping[str, Any], ...] = ()  # key, value, effect, state
    schedulable: Optional[bool] = None
    only_if: Mapping[str, Optional[str]] = field(default_factory=dict)  # None: the label must be absent


@dataclass(frozen=True)
class Change:
    """A difference between a node and what is wanted."""

    node: str
    patch: Mapping[str, Any]
    before: Mapping[str, Any]  # only what changes
    after: Mapping[str, Any]


def concerns(node: Node, wanted: Wanted) -> bool:
    """Whether the node has the labels that ``only_if`` asks for."""
    return all(node.labels.get(key) == value for key, value in wanted.only_if.items())


def plan(node: Node, wanted: Wanted) -> Optional[Change]:
    """The change that the node needs, or None when it is as wanted.

    The patch names single labels, so other people's stay. Taints are one list in the API, hence the patch carries the
    resource version of what was read, and the server refuses it when somebody else was faster; so with ``only_if``.
    """
    patch: Dict[str, Any] = {}
    before: Dict[str, Any] = {}
    after: Dict[str, Any] = {}
    labels = {key: value for key, value in wanted.labels.items() if node.labels.get(key) != value}
    if labels:
        patch["metadata"] = {"labels": labels}
        before["labels"] = {key: node.labels[key] for key in labels if key in node.labels}
        after["labels"] = {key: value for key, value in labels.items() if value is not None}
    taints = _taints(node.taints, wanted.taints)
    if taints != list(node.taints):
        patch.setdefault("spec", {})["taints"] = taints
        before["taints"] = [_text(taint) for taint in node.taints if taint not in taints]
        after["taints"] = [_text(taint) for taint in taints if taint not in node.taints]
    if wanted.schedulable is not None and wanted.schedulable != node.schedulable:
        patch.setdefault("spec", {})["unschedulable"] = None if wanted.schedulable else True
        before["schedulable"] = node.schedulable
        after["schedulable"] = wanted.schedulable
    if not patch:
        return None
    if "taints" in patch.get("spec", {}) or wanted.only_if:
        patch.setdefault("metadata", {})["resourceVersion"] = node.resource_version
    return Change(node.name, patch, before, after)


def _taints(have: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """The node's taints with the wanted ones in and the unwanted ones out; others, and the order, stay."""
    result = list(have)
    for want in wanted:
        same = [
            taint for taint in result if taint["key"] == want["key"] and want["effect"] in (None, taint.get("effect"))
        ]
        if want["state"] == "absent":
            result = [taint for taint in result if taint not in same]
        elif not any((taint.get("value") or "") == (want["value"] or "") for taint in same):
            new = {"key": want["key"], "effect": want["effect"]}
            if want["value"]:
                new["value"] = want["value"]
            result = [taint for taint in result if taint not in same] + [new]
    return result


def _text(taint: Mapping[str, Any]) -> str:
    """As kubectl writes it: ``key=value:Effect``."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', '')}"


def diff(changes: Sequence[Change]) -> Dict[str, Any]:
    """Ansible's diff: what changes, nothing else."""
    ordered = sorted(changes, key=lambda change: change.node)
    return {
        "before": {change.node: change.before for change in ordered},
        "after": {change.node: change.after for change in ordered},
        "before_header": "nodes",
        "after_header": "nodes",
    }
