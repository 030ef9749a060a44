# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's definition as a truth table; and what a verdict over nodes says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.lingjun.rdma.plugins.module_utils import _gate, _nodes

from tests.unit.plugins import objects

CASES = yaml.safe_load((Path(__file__).parent / "gate_cases.yml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_blocker(case: dict[str, Any]) -> None:
    found = _gate.blocker(case["pod"], ["rdma/hca"])
    if case["expect"] is None:
        assert found is None
    else:
        assert found is not None
        assert case["expect"].items() <= found.as_dict().items()


def test_several_resources() -> None:
    pod = objects.pod(
        "p", "a", objects.container("one", {"x/fast": "1"}), objects.hca(2, "two"), objects.container("three")
    )
    found = _gate.blocker(pod, ["rdma/hca", "x/fast", "x/slow"])
    assert found is not None
    assert found.resources == {"rdma/hca": 2, "x/fast": 1}
    assert found.containers == ("one", "two")


def held(node: str, name: str = "p", **more: Any) -> _gate.Blocker:
    found = _gate.blocker(objects.pod(name, node, objects.hca(), **more), ["rdma/hca"])
    assert found is not None
    return found


def nodes(*raw: dict[str, Any]) -> list[_nodes.Node]:
    return [_nodes.parse(item) for item in raw]


@pytest.mark.parametrize(
    ("ready", "blocked", "clear"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_a_node_is_clear_only_when_it_is_ready_and_nothing_blocks(ready: bool, blocked: bool, clear: bool) -> None:
    verdict = _gate.judge(nodes(objects.node("a", ready=ready)), [held("a")] if blocked else [])
    assert verdict.clear is clear
    assert verdict.nodes[0]["clear"] is clear


def test_one_blocked_node_shuts_the_gate_and_the_rows_tell_which() -> None:
    verdict = _gate.judge(
        nodes(objects.node("a", "shared"), objects.node("b")), [held("b"), held("b", "q"), held("elsewhere")]
    )
    assert not verdict.clear
    assert [(row["name"], row["clear"], row["blockers"], row["mode"]) for row in verdict.nodes] == [
        ("a", True, 0, "shared"),
        ("b", False, 2, None),
    ]
    assert [blocker.name for blocker in verdict.blockers] == ["p", "q"]


def test_message_names_pods_and_nodes() -> None:
    blockers = [held("a", owner="Job/bench"), held("a", "q", terminating=True)]
    message = _gate.judge(nodes(objects.node("a"), objects.node("b", ready=False)), blockers).message(["rdma/hca"])
    assert "2 pods ask for rdma/hca: default/p of Job/bench on a (Running); default/q on a (terminating)." in message
    assert "nobody can tell what still runs there: b (NodeStatusUnknown)" in message


def test_long_lists_are_cut_in_the_message_only() -> None:
    verdict = _gate.judge(nodes(objects.node("a")), [held("a", f"p{number:02}") for number in range(25)])
    assert "25 pods" in verdict.message(["rdma/hca"])
    assert "p09" in verdict.message(["rdma/hca"])
    assert "p10" not in verdict.message(["rdma/hca"])
    assert "and 15 more" in verdict.message(["rdma/hca"])
    assert len(verdict.blockers) == 25
