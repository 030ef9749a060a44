# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""job_info against the fake API server: it waits for either end of a Job."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.unit.plugins import fake_api
from tests.unit.plugins.conftest import RunModule
from tests.unit.plugins.fake_api import FakeApi

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ansible_collections.lingjun.rdma.plugins.modules.job_info")
    monkeypatch.setattr(module, "PAUSE", 0.02)
    monkeypatch.setattr(module, "GRACE", 0.1)


def job(name: str, ended: str = "", *, reason: str = "", message: str = "") -> Json:
    condition = {"type": ended, "status": "True", "reason": reason, "message": message}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": {"conditions": [condition] if ended else []}}


def pod(
    owner: str, phase: str, *, state: Json | None = None, node: str = "a", created: str = "1", **status: Any
) -> Json:
    return {
        "metadata": {
            "name": f"{owner}-{created}",
            "namespace": "default",
            "creationTimestamp": f"2026-12-01T00:00:0{created}Z",
            "labels": {"batch.kubernetes.io/job-name": owner},
            "ownerReferences": [{"kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}],
        },
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "rdma-test", "state": state}] if state else [],
            **status,
        },
    }


ENDED = {"terminated": {"exitCode": 0, "startedAt": "2026-12-01T00:00:00Z", "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 3, "startedAt": "2026-12-01T00:00:00Z", "reason": "Error", "message": "no NIC"}}
NO_IMAGE = {"waiting": {"reason": "ErrImageNeverPull", "message": 'image "x:1" is not present'}}


def test_complete(api: FakeApi, run_module: RunModule) -> None:
    api.add("jobs", job("good", "Complete"))
    api.add("pods", pod("good", "Succeeded", state=ENDED))
    (found,) = run_module("job_info", names=["good"], wait=True)["jobs"]
    assert (found["state"], found["message"], found["stuck"]) == ("complete", "", False)
    assert [(item["name"], item["node"], item["started"]) for item in found["pods"]] == [("good-1", "a", True)]


def test_failed_is_waited_for_no_longer_and_says_why(api: FakeApi, run_module: RunModule) -> None:
    api.add("jobs", job("bad", "Failed", reason="BackoffLimitExceeded", message="Job has reached the limit"))
    api.add("pods", pod("bad", "Failed", state=FAILED))
    result = run_module("job_info", names=["bad"], wait=True, wait_timeout=60)
    (found,) = result["jobs"]
    assert not result.failed
    assert found["state"] == "failed"
    assert all(word in found["message"] for word in ("bad-1", "on a", "exit code 3", "no NIC"))


def test_failed_without_a_pod(api: FakeApi, run_module: RunModule) -> None:
    api.add("jobs", job("bad", "Failed", reason="DeadlineExceeded", message="Job was active longer than allowed."))
    (found,) = run_module("job_info", names=["bad"])["jobs"]
    assert found["message"] == "DeadlineExceeded: Job was active longer than allowed"


def test_waits_for_all_of_them(api: FakeApi, run_module: RunModule) -> None:
    api.add("jobs", job("one", "Complete"), job("two"))

    def go_on(_request: fake_api.Request) -> None:
        if api.count("GET", "jobs/two") == 3:
            api.add("jobs", job("two", "Failed", reason="BackoffLimitExceeded"))

    api.on_request = go_on
    found = run_module("job_info", names=["two", "one"], wait=True, wait_timeout=60)["jobs"]
    assert [(item["name"], item["state"]) for item in found] == [("two", "failed"), ("one", "complete")]


def test_timeout_is_no_failure_and_tells_what_it_waits_for(api: FakeApi, run_module: RunModule) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available.",
    }
    api.add("jobs", job("waits"), job("empty"))
    api.add("pods", pod("waits", "Pending", node="", conditions=[condition]))
    result = run_module("job_info", names=["waits", "empty"], wait=True, wait_timeout=0)
    waits, empty = result["jobs"]
    assert not result.failed
    assert (waits["state"], waits["stuck"]) == ("running", False)
    assert waits["message"] == "pod waits-1: Unschedulable: 0/2 nodes are available"
    assert empty["message"] == "it has no pod yet"


def test_image_that_can_never_be_had_ends_the_wait(api: FakeApi, run_module: RunModule) -> None:
    api.add("jobs", job("stuck"))
    api.add("pods", pod("stuck", "Pending", state=NO_IMAGE))
    (found,) = run_module("job_info", names=["stuck"], wait=True, wait_timeout=60)["jobs"]
    assert (found["state"], found["stuck"]) == ("running", True)
    assert found["pods"][0]["started"] is False
    assert "ErrImageNeverPull" in found["message"]


def test_newest_pod_last_and_only_its_own(api: FakeApi, run_module: RunModule) -> None:
    foreign = pod("good", "Failed", state=FAILED, created="9")
    foreign["metadata"]["ownerReferences"][0]["uid"] = "of an earlier Job of this name"
    api.add("jobs", job("good", "Complete"))
    api.add(
        "pods",
        pod("good", "Succeeded", state=ENDED, created="2"),
        pod("good", "Failed", state=FAILED, created="1"),
        foreign,
    )
    (found,) = run_module("job_info", names=["good"])["jobs"]
    assert [item["name"] for item in found["pods"]] == ["good-1", "good-2"]


def test_job_that_does_not_exist(api: FakeApi, run_module: RunModule) -> None:
    api.add("jobs", job("good", "Complete"))
    result = run_module("job_info", names=["good", "missing"])
    assert result.failed
    assert "missing" in result["msg"]
    assert "kubectl -n default get jobs" in result["msg"]


@pytest.mark.parametrize("options", [{"names": []}, {"names": ["x"], "wait_timeout": -1}])
def test_wrong_options(api: FakeApi, run_module: RunModule, options: Json) -> None:
    assert run_module("job_info", **options).failed
