# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node offer what it should, and the reason why not: one row for each cause that operators meet."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _allocatable, _nodes
from ansible_collections.lingjun.rdma.plugins.module_utils._allocatable import Want
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue

from tests.unit.plugins import objects

HCA = "rdma/hca"
CRASHED = {
    "name": "plugin",
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "message": "no config file"}},
}


def evaluate(node: dict[str, Any], *pods: dict[str, Any], want: Any = "from_mode") -> list[_allocatable.Short]:
    parsed = [found for pod in pods if (found := _allocatable.plugin_pod(pod))]
    return _allocatable.short_of([_nodes.parse(node, [HCA])], parsed, [HCA], _allocatable.want(want, [HCA]))


@pytest.mark.parametrize(
    ("node", "pods", "want"),
    [
        (objects.node("a", "shared", devices="1k"), [objects.plugin_pod("a")], "from_mode"),
        (objects.node("a", "exclusive", devices="4"), [objects.plugin_pod("a", "exclusive")], "from_mode"),
        (objects.node("a", "mine", devices="4"), [objects.plugin_pod("a", "mine")], "from_mode"),
        (objects.node("a", "shared", devices="1k"), [objects.plugin_pod("a")], 1000),
        (objects.node("a", "shared", devices="1k"), [objects.plugin_pod("a")], "1k"),
        (objects.node("a", "shared", devices="1k"), [objects.plugin_pod("a")], {HCA: "1000"}),
        # Whoever offers it, when a number is asked for and the node has no mode.
        (objects.node("a", devices="8"), [], 8),
        # Being drained: nothing may be left.
        (objects.node("a", "draining", devices="0", capacity="1k"), [], "from_mode"),
        (objects.node("a", "draining"), [], "from_mode"),
        # During a rollout, the next pod beside the one that goes.
        (
            objects.node("a", "shared", devices="1k"),
            [objects.plugin_pod("a", terminating=True), objects.plugin_pod("a")],
            "from_mode",
        ),
        (objects.node("a"), [], 0),
    ],
)
def test_enough(node: dict[str, Any], pods: list[dict[str, Any]], want: Any) -> None:
    assert evaluate(node, *pods, want=want) == []


@pytest.mark.parametrize(
    ("node", "pods", "have", "words"),
    [
        (objects.node("a"), [], 0, "has no label lingjun.rdma/mode, by which the plugin finds its nodes: run site.yml"),
        (objects.node("a", devices="8"), [], 8, "its capacity of 8 comes from another plugin"),
        (objects.node("a", "shared"), [], 0, "no pod of the DaemonSet rdma-dp-shared runs there"),
        (
            objects.node("a", "exclusive", devices="1k"),
            [objects.plugin_pod("a")],
            1000,
            "says lingjun.rdma/mode=exclusive, but its plugin pod is kube-system/rdma-dp-shared-a of profile shared",
        ),
        # The number is from before: kubelet keeps it for a while.
        (objects.node("a", "shared", devices="1k"), [], 1000, "no pod of the DaemonSet"),
        (objects.node("a", "shared", devices="1k"), [objects.plugin_pod("b")], 1000, "no pod of the DaemonSet"),
        (
            objects.node("a", "shared", devices="1k"),
            [objects.plugin_pod("a", ready=False, statuses=[CRASHED])],
            1000,
            "rdma-dp-shared-a is not Ready: CrashLoopBackOff: container plugin ended with exit code 1: no config file",
        ),
        (
            objects.node("a", "shared", devices="1k"),
            [objects.plugin_pod("a", terminating=True)],
            1000,
            "is not Ready: Terminating",
        ),
        (
            objects.node("a", "shared"),
            [objects.plugin_pod("a", ready=False, phase="Pending")],
            0,
            "is not Ready: Pending",
        ),
        # On a node that is not Ready nothing counts, whatever the number says.
        (
            objects.node("a", "shared", devices="1k", ready=False),
            [objects.plugin_pod("a")],
            0,
            "the node is not Ready (NodeStatusUnknown), so the numbers",
        ),
        (
            objects.node("a", "shared", devices="0", capacity="1k"),
            [objects.plugin_pod("a")],
            0,
            "all 1000 devices are unhealthy (capacity 1000, allocatable 0)",
        ),
        (objects.node("a", "shared"), [objects.plugin_pod("a")], 0, "is Ready but offers no device: probably no NIC"),
        (
            objects.node("a", "shared", devices="0"),
            [objects.plugin_pod("a")],
            0,
            "is Ready but offers no device: probably no NIC",
        ),
    ],
)
def test_reason(node: dict[str, Any], pods: list[dict[str, Any]], have: int, words: str) -> None:
    (short,) = evaluate(node, *pods)
    assert words in short.reason
    assert (short.name, short.resource, short.have, short.want) == ("a", HCA, have, 1)


def test_fewer_than_asked_for() -> None:
    (short,) = evaluate(
        objects.node("a", "exclusive", devices="3", capacity="4"), objects.plugin_pod("a", "exclusive"), want=4
    )
    assert (short.have, short.want) == (3, 4)
    assert "1 of 4 devices are unhealthy" in short.reason


def test_a_draining_node_must_offer_nothing() -> None:
    (short,) = evaluate(objects.node("a", "draining", devices="4"))
    assert (short.have, short.want) == (4, 0)
    assert "it still offers 4" in short.reason


def test_each_resource_by_itself() -> None:
    node = objects.node("a", devices="8")
    node["status"]["allocatable"]["x/fast"] = "2"
    resources = [HCA, "x/fast"]
    wanted = _allocatable.want({"x/fast": 3}, resources)
    short = _allocatable.short_of([_nodes.parse(node, resources)], [], resources, wanted)
    assert [(item.resource, item.have, item.want) for item in short] == [("x/fast", 2, 3)]


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        ("from_mode", Want()),
        (4, Want(False, {HCA: 4, "x/y": 4})),
        ("1k", Want(False, {HCA: 1000, "x/y": 1000})),
        ({HCA: "1k"}, Want(False, {HCA: 1000})),
        (0, Want(False, {HCA: 0, "x/y": 0})),
    ],
)
def test_wait_for(raw: Any, want: Want) -> None:
    assert _allocatable.want(raw, [HCA, "x/y"]) == want


@pytest.mark.parametrize("raw", ["from_modes", "", True, None, 1.5, [1], -1, {HCA: "x"}, {"other/one": 1}])
def test_wait_for_what_can_not_be_meant(raw: Any) -> None:
    with pytest.raises(InvalidValue, match="wait_for"):
        _allocatable.want(raw, [HCA])


def test_row() -> None:
    node = _nodes.parse(objects.node("a", "shared", devices="2", capacity="4"), [HCA, "x/y"])
    assert _allocatable.row(node, {HCA: 3}, [HCA, "x/y"]) == {
        "name": "a",
        "ready": True,
        "schedulable": True,
        "mode": "shared",
        "allocatable": {HCA: 2, "x/y": 0},
        "capacity": {HCA: 4, "x/y": 0},
        "requested": {HCA: 3, "x/y": 0},
        "free": {HCA: 0, "x/y": 0},
    }


def test_a_pod_that_no_node_took_yet_names_its_node() -> None:
    pod = objects.plugin_pod("a", ready=False, phase="Pending")
    del pod["spec"]["nodeName"]
    assert _allocatable.plugin_pod(pod) is None
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    found = _allocatable.plugin_pod(pod)
    assert found is not None
    assert (found.node, found.profile) == ("a", "shared")


@pytest.mark.parametrize(
    ("reported_at", "age", "fresh"),
    [
        # Kubelet's last report is from before the pod: the number is that of the pod before it.
        ("2026-12-01T10:00:00Z", 3.0, False),
        ("2026-12-01T10:00:09Z", 14.9, False),
        # A report since the start; or long enough without one, since kubelet writes only what has changed.
        ("2026-12-01T10:00:10Z", 0.0, True),
        ("2026-12-01T10:00:20Z", 3.0, True),
        ("2026-12-01T10:00:00Z", 15.0, True),
        ("", 3.0, False),
    ],
)
def test_a_number_from_before_the_plugin_pod_does_not_count(reported_at: str, age: float, fresh: bool) -> None:
    """site.yml must not call an upgrade good because of what the old plugin offered."""
    raw = objects.node("a", "shared", devices="1k")
    for condition in raw["status"]["conditions"]:
        condition["lastHeartbeatTime"] = reported_at
    running = [{"name": "plugin", "ready": True, "state": {"running": {"startedAt": "2026-12-01T10:00:10Z"}}}]
    pod = _allocatable.plugin_pod(objects.plugin_pod("a", statuses=running))
    assert pod is not None
    assert pod.started_at == "2026-12-01T10:00:10Z"
    short = _allocatable.short_of(
        [_nodes.parse(raw, [HCA])], [dataclasses.replace(pod, age=age)], [HCA], _allocatable.want("from_mode", [HCA])
    )
    assert [item.reason for item in short if "has just started" in item.reason] == [item.reason for item in short]
    assert bool(short) is not fresh
