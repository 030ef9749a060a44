# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_labels against the fake API server: what is sent, what is reported, and never half or false."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plugins import fake_api, objects
from tests.unit.plugins.conftest import RunModule
from tests.unit.plugins.fake_api import FakeApi

MODE = "lingjun.rdma/mode"


def labels(api: FakeApi, node: str) -> dict[str, str]:
    return dict(api.get("nodes", node)["metadata"]["labels"])


def test_patches_only_what_differs(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared"), objects.node("b"), objects.node("c"))
    result = run_module("node_labels", label_selectors=["pool=h20"], labels={MODE: "shared"})
    assert result["changed"]
    assert (result["changed_nodes"], result["unchanged_nodes"], result["skipped_nodes"]) == (["b", "c"], ["a"], [])
    assert labels(api, "b") == {"pool": "h20", MODE: "shared"}
    assert (api.count("GET"), api.count("PATCH")) == (1, 2)


def test_second_run_changes_nothing_and_costs_one_request(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", *(objects.node(f"n{number:03}") for number in range(120)))
    options: dict[str, Any] = {"label_selectors": ["pool=h20"], "labels": {MODE: "shared"}, "schedulable": False}
    assert len(run_module("node_labels", **options)["changed_nodes"]) == 120
    assert len({request.port for request in api.requests}) <= 8, "eight connections at most"
    api.requests.clear()
    result = run_module("node_labels", **options)
    assert not result["changed"]
    assert len(result["unchanged_nodes"]) == 120
    assert len(api.requests) == 1


@pytest.mark.parametrize("diff", [False, True])
def test_check_mode_reports_the_same_and_touches_nothing(api: FakeApi, run_module: RunModule, diff: bool) -> None:
    api.add("nodes", objects.node("a"), objects.node("b", "shared"))
    options: dict[str, Any] = {"nodes": ["a", "b"], "labels": {MODE: "shared"}}
    checked = run_module("node_labels", check_mode=True, diff=diff, **options)
    assert api.count("PATCH") == 0
    done = run_module("node_labels", diff=diff, **options)
    assert api.count("PATCH") == 1
    for field in ("changed", "changed_nodes", "unchanged_nodes", "skipped_nodes", "diff"):
        assert checked.values.get(field) == done.values.get(field)
    assert done["diff"]["before"] == {"a": {"labels": {}}}
    assert done["diff"]["after"] == {"a": {"labels": {MODE: "shared"}}}


def test_only_if(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "exclusive"), objects.node("b"))
    result = run_module("node_labels", label_selectors=["pool=h20"], labels={MODE: "shared"}, only_if={MODE: None})
    assert (result["changed_nodes"], result["skipped_nodes"]) == (["b"], ["a"])
    assert labels(api, "a")[MODE] == "exclusive"


def test_null_removes(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared"))
    assert run_module("node_labels", nodes=["a"], labels={MODE: None, "never": None})["changed"]
    assert labels(api, "a") == {"pool": "h20"}


def test_taints_and_cordon_leave_others_alone(api: FakeApi, run_module: RunModule) -> None:
    others = {"key": "other", "effect": "NoExecute"}
    api.add("nodes", objects.node("a", taints=[others]))
    taint = {"key": "closed", "effect": "NoSchedule"}
    options: dict[str, Any] = {"nodes": ["a"], "taints": [taint], "schedulable": False}
    assert run_module("node_labels", **options)["changed"]
    assert api.get("nodes", "a")["spec"] == {"taints": [others, taint], "unschedulable": True}
    assert api.count("PATCH") == 1, "one patch a node: never half of it"
    assert not run_module("node_labels", **options)["changed"]
    assert run_module("node_labels", nodes=["a"], taints=[{**taint, "state": "absent"}], schedulable=True)["changed"]
    assert api.get("nodes", "a")["spec"] == {"taints": [others]}


def test_somebody_changes_the_taints_at_the_same_time(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    theirs = {"key": "theirs", "effect": "NoSchedule"}

    def interfere(request: fake_api.Request) -> None:
        if request.method == "PATCH" and api.count("PATCH") == 1:
            api.add("nodes", objects.node("a", taints=[theirs]))

    api.on_request = interfere
    mine = {"key": "mine", "effect": "NoSchedule"}
    assert run_module("node_labels", nodes=["a"], taints=[mine])["changed_nodes"] == ["a"]
    assert api.get("nodes", "a")["spec"]["taints"] == [theirs, mine]


def test_somebody_gives_the_node_a_mode_at_the_same_time(api: FakeApi, run_module: RunModule) -> None:
    """``only_if`` must hold when the patch is applied, not only when the node was read."""
    api.add("nodes", objects.node("a"))

    def interfere(request: fake_api.Request) -> None:
        if request.method == "PATCH" and api.count("PATCH") == 1:
            api.add("nodes", objects.node("a", "exclusive"))

    api.on_request = interfere
    result = run_module("node_labels", nodes=["a"], labels={MODE: "shared"}, only_if={MODE: None})
    assert (result["changed"], result["skipped_nodes"]) == (False, ["a"])
    assert labels(api, "a")[MODE] == "exclusive"


def test_somebody_who_never_stops(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))

    def interfere(request: fake_api.Request) -> None:
        if request.method == "PATCH":
            api.add("nodes", objects.node("a", labels={"count": str(api.count("PATCH"))}))

    api.on_request = interfere
    result = run_module("node_labels", nodes=["a"], taints=[{"key": "mine", "effect": "NoSchedule"}])
    assert result.failed
    assert not result["changed"]
    assert "somebody else changed it each time" in result.msg
    assert api.count("PATCH") == 6


def test_lost_answer_is_still_our_change(api: FakeApi, run_module: RunModule) -> None:
    """The patch was applied, its answer lost, its repetition refused as stale: changed, since we did it."""
    api.add("nodes", objects.node("a"))
    api.fault("PATCH", "nodes/a", fake_api.drop, after=True)
    result = run_module("node_labels", nodes=["a"], taints=[{"key": "mine", "effect": "NoSchedule"}])
    assert (result["changed"], result["changed_nodes"]) == (True, ["a"])


def test_node_that_is_removed_meanwhile(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"), objects.node("b"))
    api.fault("PATCH", "nodes/a", fake_api.status(404, 'nodes "a" not found'))
    result = run_module("node_labels", nodes=["a", "b"], labels={"x": "y"})
    assert result.failed
    assert result["changed_nodes"] == ["b"], "the others are done, and said to be"
    assert result["failed_nodes"] == [{"name": "a", "reason": "the node was removed from the cluster meanwhile"}]
    assert "1 of 2 nodes that differ could not be changed (1 were): a: the node was removed" in result.msg


def test_may_not_patch(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", *(objects.node(f"n{number:03}") for number in range(100)))
    api.fault("PATCH", "nodes", fake_api.status(403, 'User "u" cannot patch resource "nodes"'), times=1000)
    result = run_module("node_labels", label_selectors=["pool=h20"], labels={"x": "y"})
    assert result.failed
    assert not result["changed"]
    assert "may not patch nodes" in result.msg
    assert "ClusterRole with the verb patch on nodes" in result.msg
    assert api.count("PATCH") <= 16, "the same refusal is not asked for a hundred times"


def test_unknown_names_and_nothing_is_patched(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"), objects.node("b.example.com"))
    result = run_module("node_labels", nodes=["a", "B"], labels={"x": "y"})
    assert result.failed
    assert "no node named B (probably b.example.com)" in result.msg
    assert api.count("PATCH") == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "there is nothing to do"),
        ({"labels": {}}, "there is nothing to do"),
        ({"labels": {"_x": "1", "y": "a b"}}, "labels[_x]"),
        ({"labels": {"version": 1.10}}, "quotes"),
        ({"labels": {"x": "1"}, "only_if": {"a b": "1"}}, "only_if[a b]"),
        ({"taints": [{"key": "x"}]}, "needs an effect"),
    ],
)
def test_invalid_options_send_nothing(api: FakeApi, run_module: RunModule, options: dict[str, Any], words: str) -> None:
    result = run_module("node_labels", nodes=["a"], **options)
    assert result.failed
    assert words in result.msg
    assert api.requests == []


def test_yaml_booleans_become_text(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    run_module("node_labels", nodes=["a"], labels={"alibabacloud.com/lingjun-worker": True})
    assert labels(api, "a")["alibabacloud.com/lingjun-worker"] == "true"


@pytest.mark.parametrize("options", [{}, {"nodes": ["a"], "label_selectors": ["x"]}])
def test_nodes_or_selectors(run_module: RunModule, options: dict[str, Any]) -> None:
    assert run_module("node_labels", labels={"x": "y"}, **options).failed
