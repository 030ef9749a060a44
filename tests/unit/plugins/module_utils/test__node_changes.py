# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one patch that brings a node to the wanted state."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _node_changes, _nodes
from ansible_collections.lingjun.rdma.plugins.module_utils._node_changes import Wanted

from tests.unit.plugins import objects
from tests.unit.plugins.fake_api import merged

OTHERS = {"key": "other", "value": "x", "effect": "NoExecute", "timeAdded": "2026-12-01T00:00:00Z"}
MINE = {"key": "team", "value": "a", "effect": "NoSchedule"}


def taint(state: str = "present", effect: str | None = "NoSchedule", value: str | None = "a") -> dict[str, Any]:
    return {"key": "team", "value": value, "effect": effect, "state": state}


@pytest.mark.parametrize(
    ("have", "wanted", "patch"),
    [
        ({}, Wanted(labels={"a": "1"}), {"metadata": {"labels": {"a": "1"}}}),
        ({"labels": {"a": "1"}}, Wanted(labels={"a": "1"}), None),
        ({"labels": {"a": "1", "b": "2"}}, Wanted(labels={"a": "1", "b": "3"}), {"metadata": {"labels": {"b": "3"}}}),
        ({"labels": {"a": "1"}}, Wanted(labels={"a": None}), {"metadata": {"labels": {"a": None}}}),
        ({}, Wanted(labels={"a": None}), None),
        ({"labels": {"a": ""}}, Wanted(labels={"a": None}), {"metadata": {"labels": {"a": None}}}),
        ({}, Wanted(schedulable=False), {"spec": {"unschedulable": True}}),
        ({}, Wanted(schedulable=True), None),
        ({"unschedulable": True}, Wanted(schedulable=True), {"spec": {"unschedulable": None}}),
        ({"unschedulable": True}, Wanted(labels={"a": None}), None),
        # Others' taints and the order stay; the patch holds for the state that was read only.
        (
            {"taints": [OTHERS]},
            Wanted(taints=(taint(),)),
            {"spec": {"taints": [OTHERS, MINE]}, "metadata": {"resourceVersion": "7"}},
        ),
        ({"taints": [MINE, OTHERS]}, Wanted(taints=(taint(),)), None),
        (
            {"taints": [MINE, OTHERS]},
            Wanted(taints=(taint("absent"),)),
            {"spec": {"taints": [OTHERS]}, "metadata": {"resourceVersion": "7"}},
        ),
        (
            {"taints": [MINE]},
            Wanted(taints=(taint(value="b"),)),
            {"spec": {"taints": [{**MINE, "value": "b"}]}, "metadata": {"resourceVersion": "7"}},
        ),
        (
            {"taints": [MINE]},
            Wanted(taints=(taint(effect="NoExecute"),)),
            {"spec": {"taints": [MINE, {**MINE, "effect": "NoExecute"}]}, "metadata": {"resourceVersion": "7"}},
        ),
        (
            {"taints": [MINE, {**MINE, "effect": "NoExecute"}]},
            Wanted(taints=(taint("absent", effect=None),)),
            {"spec": {"taints": []}, "metadata": {"resourceVersion": "7"}},
        ),
        ({"taints": [MINE]}, Wanted(taints=(taint("absent", effect="NoExecute"),)), None),
        ({}, Wanted(taints=(taint("absent"),)), None),
        (
            {"labels": {"m": "x"}},
            Wanted(labels={"a": "1"}, only_if={"m": "x"}),
            {"metadata": {"labels": {"a": "1"}, "resourceVersion": "7"}},
        ),
        # All of a node in one patch.
        (
            {},
            Wanted(labels={"a": "1"}, taints=(taint(value=None),), schedulable=False),
            {
                "metadata": {"labels": {"a": "1"}, "resourceVersion": "7"},
                "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}], "unschedulable": True},
            },
        ),
    ],
)
def test_patch(have: dict[str, Any], wanted: Wanted, patch: dict[str, Any] | None) -> None:
    raw = objects.node("n", **have)
    raw["metadata"]["resourceVersion"] = "7"
    change = _node_changes.plan(_nodes.parse(raw), wanted)
    assert (change.patch if change else None) == patch
    if change:
        assert _node_changes.plan(_nodes.parse(merged(raw, patch or {})), wanted) is None, (
            "a second run changes nothing"
        )


def test_diff_shows_only_what_changes() -> None:
    raw = objects.node("n", labels={"old": "1", "same": "1", "gone": "1"}, taints=[MINE, OTHERS])
    wanted = Wanted(
        labels={"old": "2", "same": "1", "gone": None, "new": "1"}, taints=(taint("absent"),), schedulable=False
    )
    change = _node_changes.plan(_nodes.parse(raw), wanted)
    assert change is not None
    diff = _node_changes.diff([change])
    assert diff["before"] == {
        "n": {"labels": {"old": "1", "gone": "1"}, "taints": ["team=a:NoSchedule"], "schedulable": True}
    }
    assert diff["after"] == {"n": {"labels": {"old": "2", "new": "1"}, "taints": [], "schedulable": False}}


@pytest.mark.parametrize(
    ("only_if", "concerned"),
    [
        ({}, True),
        ({"a": "1"}, True),
        ({"a": "2"}, False),
        ({"b": "1"}, False),
        ({"b": None}, True),
        ({"a": None}, False),
    ],
)
def test_only_if(only_if: dict[str, str | None], concerned: bool) -> None:
    node = _nodes.parse(objects.node("n", labels={"a": "1"}))
    assert _node_changes.concerns(node, Wanted(only_if=only_if)) is concerned
