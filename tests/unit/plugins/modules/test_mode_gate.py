# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mode_gate against the fake API server."""

from __future__ import annotations

import threading

from tests.unit.plugins import fake_api, objects
from tests.unit.plugins.conftest import RunModule
from tests.unit.plugins.fake_api import FakeApi


def test_clear(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared"), objects.node("b", "shared"))
    api.add("pods", objects.pod("idle", "a"), objects.pod("done", "a", objects.hca(), phase="Succeeded"))
    result = run_module("mode_gate", nodes=["a", "b"])
    assert (result.failed, result["changed"], result["clear"], result["blockers"]) == (False, False, True, [])
    assert [(node["name"], node["clear"]) for node in result["nodes"]] == [("a", True), ("b", True)]


def test_blocked_fails_and_names_the_pods(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"), objects.node("b"))
    api.add("pods", objects.pod("rank-0", "a", objects.hca(), namespace="train", owner="Job/bench"))
    result = run_module("mode_gate", label_selectors=["pool=h20"])
    assert result.failed
    assert "1 pod asks for rdma/hca: train/rank-0 of Job/bench on a (Running)" in result.msg
    assert result["clear"] is False
    assert result["blockers"] == [
        {
            "namespace": "train",
            "name": "rank-0",
            "node": "a",
            "phase": "Running",
            "terminating": False,
            "owner": "Job/bench",
            "resources": {"rdma/hca": 1},
            "containers": ["main"],
        }
    ]


def test_only_look(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    api.add("pods", objects.pod("p", "a", objects.hca()))
    result = run_module("mode_gate", nodes=["a"], fail_when_blocked=False)
    assert (result.failed, result["clear"], len(result["blockers"])) == (False, False, 1)


def test_runs_in_check_mode(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    api.add("pods", objects.pod("p", "a", objects.hca()))
    assert run_module("mode_gate", nodes=["a"], wait=True, wait_timeout=600, check_mode=True).failed


def test_other_resource(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    api.add("pods", objects.pod("p", "a", objects.hca()))
    assert run_module("mode_gate", nodes=["a"], resources=["rdma/hca_fast"])["clear"]
    assert run_module("mode_gate", nodes=["a"], resources=["cpu"]).msg.startswith("The option resources has a name")


def test_a_node_that_is_not_ready_is_not_clear(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", ready=False))
    result = run_module("mode_gate", nodes=["a"])
    assert result.failed
    assert result["blockers"] == []
    assert "nobody can tell what still runs there: a (NodeStatusUnknown)" in result.msg


def test_pods_that_can_not_be_listed_are_an_error(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    api.fault("GET", "/pods", fake_api.status(403, "pods is forbidden"), times=9)
    result = run_module("mode_gate", nodes=["a"], fail_when_blocked=False)
    assert result.failed
    assert "clear" not in result.values
    assert "ClusterRole with the verb list on pods" in result.msg


def test_waits_until_clear(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    api.add("pods", objects.pod("p", "a", objects.hca(), terminating=True))

    def end(request: fake_api.Request) -> None:
        if "/pods" in request.path and api.count("GET", "/pods") == 3:
            api.remove("pods", "p", "default")

    api.on_request = end
    result = run_module("mode_gate", nodes=["a"], wait=True, wait_timeout=60)
    assert (result.failed, result["clear"]) == (False, True)
    assert api.count("GET", "/pods") == 3


def test_the_wait_ends(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a"))
    api.add("pods", objects.pod("p", "a", objects.hca()))
    done = threading.Event()
    result = run_module("mode_gate", nodes=["a"], wait=True, wait_timeout=1)
    done.set()
    assert result.failed
    assert "default/p on a" in result.msg


def test_requests_for_64_of_1000_nodes(api: FakeApi, run_module: RunModule) -> None:
    """One list of nodes, one count, and one pod query a node: less than all the pods."""
    names = [f"n{number:03}" for number in range(64)]
    api.add("nodes", *(objects.node(name, labels={"part": "x"}) for name in names))
    api.add("pods", *(objects.pod(f"{name}-{index}", name) for name in names for index in range(13)))
    assert run_module("mode_gate", label_selectors=["part=x"])["clear"]
    assert len(api.requests) == 1 + 1 + 64
