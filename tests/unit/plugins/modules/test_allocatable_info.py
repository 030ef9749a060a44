# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""allocatable_info against the fake API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.unit.plugins import fake_api, objects
from tests.unit.plugins.conftest import RunModule
from tests.unit.plugins.fake_api import FakeApi

SELECTOR = ["pool=h20"]


def test_result(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared", devices="1k"), objects.node("b", unschedulable=True))
    api.add(
        "pods",
        objects.plugin_pod("a"),
        objects.pod("x", "a", objects.hca(2)),
        objects.pod("y", "a", objects.hca(), phase="Failed"),
    )
    result = run_module("allocatable_info", label_selectors=SELECTOR)
    assert not result.failed
    assert not result["changed"]
    assert result["nodes"] == [
        {
            "name": "a",
            "ready": True,
            "schedulable": True,
            "mode": "shared",
            "allocatable": {"rdma/hca": 1000},
            "capacity": {"rdma/hca": 1000},
            "requested": {"rdma/hca": 2},
            "free": {"rdma/hca": 998},
        },
        {
            "name": "b",
            "ready": True,
            "schedulable": False,
            "mode": None,
            "allocatable": {"rdma/hca": 0},
            "capacity": {"rdma/hca": 0},
            "requested": {"rdma/hca": 0},
            "free": {"rdma/hca": 0},
        },
    ]
    assert [(item["name"], item["have"], item["want"]) for item in result["short_of"]] == [("b", 0, 1)]


def test_other_resource_names(api: FakeApi, run_module: RunModule) -> None:
    node = objects.node("a")
    node["status"]["allocatable"]["x.example/fast"] = "2"
    api.add("nodes", node)
    result = run_module("allocatable_info", nodes=["a"], resources=["x.example/fast"], wait_for=2)
    assert result["short_of"] == []
    assert result["nodes"][0]["allocatable"] == {"x.example/fast": 2}


def test_namespace_of_the_plugin(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared", devices="1k"))
    pod = objects.plugin_pod("a")
    pod["metadata"]["namespace"] = "rdma"
    api.add("pods", pod)
    assert run_module("allocatable_info", nodes=["a"])["short_of"]
    assert not run_module("allocatable_info", nodes=["a"], plugin_namespace="rdma")["short_of"]


def later(seconds: float, act: Callable[[], None]) -> None:
    """Do it in another thread, a little later."""
    threading.Thread(target=lambda: (time.sleep(seconds), act()), daemon=True).start()


def test_waits_by_a_watch(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared"), objects.node("b", "shared", devices="1k"))
    api.add("pods", objects.plugin_pod("a"), objects.plugin_pod("b"))
    later(0.5, lambda: api.add("nodes", objects.node("a", "shared", devices="1k")))
    started = time.monotonic()
    result = run_module("allocatable_info", label_selectors=SELECTOR, wait=True, wait_timeout=30)
    assert not result.failed
    assert time.monotonic() - started < 5
    nodes = [request.query for request in api.requests if request.path == "/api/v1/nodes"]
    assert ["watch" in query for query in nodes] == [False, True, False], "two lists and a watch, no loop of lists"
    assert nodes[1]["labelSelector"] == "pool=h20"


def test_waits_for_the_plugin_pod_too(api: FakeApi, run_module: RunModule) -> None:
    """The number may be from before: it counts when number and Ready pod are seen together."""
    api.add("nodes", objects.node("a", "shared", devices="1k"))
    api.add("pods", objects.plugin_pod("a", ready=False, phase="Pending"))
    later(0.3, lambda: api.add("pods", objects.plugin_pod("a")))
    assert not run_module("allocatable_info", nodes=["a"], wait=True, wait_timeout=30).failed


def test_failing_wait_names_nodes_and_reasons(api: FakeApi, run_module: RunModule) -> None:
    crashed = {"name": "plugin", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
    api.add(
        "nodes",
        objects.node("good", "shared", devices="1k"),
        objects.node("lost", "shared", devices="1k", ready=False),
        objects.node("nolabel"),
        objects.node("crash", "shared"),
        objects.node("dead", "shared", devices="0", capacity="1k"),
        objects.node("other", "exclusive", devices="1k"),
    )
    api.add("pods", *(objects.plugin_pod(name) for name in ("good", "lost", "dead", "other")))
    api.add("pods", objects.plugin_pod("crash", ready=False, statuses=[crashed]))
    result = run_module("allocatable_info", label_selectors=SELECTOR, wait=True, wait_timeout=1)
    assert result.failed
    assert "After 1 s 5 of 6 nodes don't offer what they should" in result.msg
    reasons = {item["name"]: item["reason"] for item in result["short_of"]}
    assert "not Ready" in reasons["lost"]
    assert "no label" in reasons["nolabel"]
    assert "CrashLoopBackOff" in reasons["crash"]
    assert "unhealthy" in reasons["dead"]
    assert "profile shared" in reasons["other"]
    assert len(result["nodes"]) == 6


def test_check_mode_does_not_wait(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared"))
    result = run_module("allocatable_info", nodes=["a"], wait=True, wait_timeout=600, check_mode=True)
    assert not result.failed
    assert len(result["short_of"]) == 1


@pytest.mark.parametrize(
    "act", [fake_api.status(410), fake_api.drop, fake_api.status(503)], ids=["expired", "dropped", "503"]
)
def test_a_watch_that_fails_is_begun_anew(
    api: FakeApi, run_module: RunModule, act: Callable[[fake_api.Handler], None]
) -> None:
    api.add("nodes", objects.node("a", "shared"))
    api.add("pods", objects.plugin_pod("a"))
    api.fault("GET", "watch=1", act)
    later(0.5, lambda: api.add("nodes", objects.node("a", "shared", devices="1k")))
    assert not run_module("allocatable_info", nodes=["a"], wait=True, wait_timeout=30).failed


def test_a_node_that_is_deleted_during_the_wait(api: FakeApi, run_module: RunModule) -> None:
    api.add("nodes", objects.node("a", "shared"), objects.node("b"))
    later(0.3, lambda: api.remove("nodes", "a"))
    result = run_module("allocatable_info", nodes=["a"], wait=True, wait_timeout=30)
    assert result.failed
    assert "no node named a" in result.msg


def test_requests_at_1000_nodes(api: FakeApi, run_module: RunModule) -> None:
    """The pages of one list of nodes, the plugin's pods, and the pages of all pods: cheaper than 1,000 queries."""
    names = [f"n{number:04}" for number in range(1000)]
    api.add("nodes", *(objects.node(name, "shared", devices="1k") for name in names))
    api.add("pods", *(objects.plugin_pod(name) for name in names))
    assert run_module("allocatable_info", label_selectors=SELECTOR)["short_of"] == []
    assert len(api.requests) == 2 + 2 + (1 + 2)
