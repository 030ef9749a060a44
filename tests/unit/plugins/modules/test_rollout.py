# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout against the fake API server."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.plugins import fake_api, objects
from tests.unit.plugins.conftest import RunModule
from tests.unit.plugins.fake_api import FakeApi

PULL = {
    "name": "plugin",
    "state": {"waiting": {"reason": "ErrImageNeverPull", "message": 'image "x:1" is not present'}},
}
OPTIONS: dict[str, Any] = {"name": "rdma-dp-shared", "namespace": "kube-system"}


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ansible_collections.lingjun.rdma.plugins.modules.rollout")
    monkeypatch.setattr(module, "GRACE", 0.5)
    monkeypatch.setattr(module, "SETTLE", 0.5)
    monkeypatch.setattr(module, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(module, "PAUSE", 5.0)  # a hundredth of it is slept


@pytest.fixture
def nodes(api: FakeApi) -> None:
    api.add("nodes", objects.node("a", "shared"), objects.node("b", "shared"))


@pytest.mark.usefixtures("nodes")
class TestDone:
    def test_at_once(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set(desired=2))
        result = run_module("rollout", **OPTIONS)
        assert {key: result[key] for key in ("changed", "failures", "desired", "updated", "available")} == {
            "changed": False,
            "failures": [],
            "desired": 2,
            "updated": 2,
            "available": 2,
        }
        assert len(api.requests) == 2

    def test_after_a_while(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set(desired=2, available=0, generation=2))

        def go_on(_request: fake_api.Request) -> None:
            looks = api.count("GET", "daemonsets/")
            if looks in (3, 5):
                api.add("daemonsets", objects.daemon_set(desired=2, available=looks - 3, generation=2, observed=2))

        api.on_request = go_on
        assert run_module("rollout", **OPTIONS)["available"] == 2

    def test_numbers_from_before_the_nodes_were_labelled(self, api: FakeApi, run_module: RunModule) -> None:
        """The controller has not seen the second node yet; one look would take that for done."""
        api.add("daemonsets", objects.daemon_set(desired=1))

        def go_on(_request: fake_api.Request) -> None:
            if api.count("GET", "daemonsets/") == 3:
                api.add("daemonsets", objects.daemon_set(desired=2))

        api.on_request = go_on
        assert run_module("rollout", **OPTIONS)["desired"] == 2

    def test_a_node_that_the_selector_matches_but_a_taint_excludes(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set(desired=1))
        assert run_module("rollout", **OPTIONS)["desired"] == 1


@pytest.mark.usefixtures("nodes")
class TestFails:
    def fails(self, run_module: RunModule, timeout: int = 60, **more: Any) -> Any:
        result = run_module("rollout", wait_timeout=timeout, **OPTIONS, **more)
        assert "msg" in result.values
        return result

    def test_early_when_waiting_does_not_help(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set(desired=2, available=0))
        api.add("pods", *(objects.plugin_pod(node, ready=False, phase="Pending", statuses=[PULL]) for node in "ab"))
        result = self.fails(run_module)
        assert "can't succeed (0 of 2 pods available" in result.msg
        nodes = "a (pod rdma-dp-shared-a), b (pod rdma-dp-shared-b)"
        assert f'{nodes}: ErrImageNeverPull: image "x:1" is not present (load the image on the node' in result.msg

    def test_pods_that_can_not_be_created(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set(desired=2, available=0, updated=0))
        event = {
            "metadata": {"name": "e", "namespace": "kube-system"},
            "involvedObject": {"kind": "DaemonSet", "name": "rdma-dp-shared", "uid": "uid-shared"},
            "reason": "FailedCreate",
            "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "message": 'Error creating: pods "x" is forbidden: exceeded quota',
        }
        api.add("events", event)
        result = self.fails(run_module)
        assert "can't succeed" in result.msg
        assert "exceeded quota" in result.msg
        assert [(item["node"], item["reason"]) for item in result["failures"]] == [
            ("a", "FailedCreate"),
            ("b", "FailedCreate"),
        ]

    def test_an_old_refusal_does_not_count(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set(desired=2, available=0, updated=0))
        long_ago = datetime.now(UTC) - timedelta(minutes=20)
        event = {
            "metadata": {"name": "e", "namespace": "kube-system"},
            "involvedObject": {"kind": "DaemonSet", "name": "rdma-dp-shared", "uid": "uid-shared"},
            "reason": "FailedCreate",
            "lastTimestamp": long_ago.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "message": "exceeded quota",
        }
        api.add("events", event)
        result = self.fails(run_module, timeout=1)
        assert "was not done after 1 s" in result.msg
        assert "quota" not in result.msg

    def test_a_volume_that_is_missing(self, api: FakeApi, run_module: RunModule) -> None:
        """Only the event tells: the pod's status says ContainerCreating."""
        api.add("daemonsets", objects.daemon_set(desired=1, available=0))
        creating = {"name": "plugin", "state": {"waiting": {"reason": "ContainerCreating"}}}
        api.add("pods", objects.plugin_pod("a", ready=False, phase="Pending", statuses=[creating]))
        event = {
            "metadata": {"name": "e", "namespace": "kube-system"},
            "involvedObject": {"kind": "Pod", "name": "rdma-dp-shared-a"},
            "type": "Warning",
            "reason": "FailedMount",
            "lastTimestamp": "2026-12-01T00:00:00Z",
            "message": 'MountVolume.SetUp failed for volume "config": configmap "rdma-dp-shared" not found',
        }
        api.add("events", event)
        result = self.fails(run_module, timeout=1)
        assert 'a (pod rdma-dp-shared-a): ContainerCreating: MountVolume.SetUp failed for volume "config"' in result.msg

    def test_selects_nothing(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("daemonsets", objects.daemon_set("exclusive", desired=0))
        result = run_module("rollout", name="rdma-dp-exclusive")
        assert "selects no node: none has the labels lingjun.rdma/mode=exclusive" in result.msg
        assert run_module("rollout", name="rdma-dp-exclusive", allow_empty=True)["desired"] == 0

    def test_missing(self, run_module: RunModule) -> None:
        assert "The namespace kube-system has no DaemonSet rdma-dp-shared" in self.fails(run_module).msg

    def test_may_not_read(self, api: FakeApi, run_module: RunModule) -> None:
        api.fault("GET", "daemonsets", fake_api.status(403, "no"), times=9)
        assert "verb get on daemonsets.apps" in self.fails(run_module).msg


class TestCheckMode:
    def test_missing_is_what_an_earlier_task_would_have_made(self, run_module: RunModule) -> None:
        assert run_module("rollout", check_mode=True, **OPTIONS)["desired"] == 0

    def test_looks_once(self, api: FakeApi, run_module: RunModule) -> None:
        api.add("nodes", objects.node("a", "shared"))
        api.add("daemonsets", objects.daemon_set(desired=1, available=0))
        api.add("pods", objects.plugin_pod("a", ready=False, phase="Pending", statuses=[PULL]))
        result = run_module("rollout", check_mode=True, **OPTIONS)
        assert [item["reason"] for item in result["failures"]] == ["ErrImageNeverPull"]
        assert api.count("GET", "daemonsets/") == 1
