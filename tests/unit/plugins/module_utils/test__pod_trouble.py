# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a pod from serving, from statuses as kubelet writes them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils._pod_trouble import diagnose

from tests.unit.plugins import objects

DIED = {"exitCode": 1, "reason": "Error", "message": "config: configList[0].selectors:\n  nothing selected\n"}


def status(**state: Any) -> dict[str, Any]:
    return {"name": "plugin", "ready": False, **state}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return status(state={"waiting": {"reason": reason, "message": message}}, **more)


@pytest.mark.parametrize(
    ("statuses", "phase", "reason", "words"),
    [
        (
            [waiting("ErrImageNeverPull", 'Container image "x:1" is not present with pull policy of Never')],
            "Pending",
            "ErrImageNeverPull",
            'image "x:1" is not present',
        ),
        ([waiting("ImagePullBackOff", 'Back-off pulling image "x:1"')], "Pending", "ImagePullBackOff", "x:1"),
        ([waiting("InvalidImageName", "couldn't parse")], "Pending", "InvalidImageName", "couldn't parse"),
        (
            [waiting("CreateContainerConfigError", 'secret "s" not found')],
            "Pending",
            "CreateContainerConfigError",
            'secret "s" not found',
        ),
        # The termination message says more than "back-off 40s restarting failed container".
        (
            [waiting("CrashLoopBackOff", "back-off 40s", lastState={"terminated": DIED})],
            "Running",
            "CrashLoopBackOff",
            "exit code 1: config: configList[0].selectors: nothing selected",
        ),
        ([waiting("CrashLoopBackOff", "back-off 40s")], "Running", "CrashLoopBackOff", "back-off 40s"),
        ([status(state={"terminated": DIED})], "Running", "Error", "nothing selected"),
        (
            [status(state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})],
            "Running",
            "OOMKilled",
            "exit code 137",
        ),
        ([waiting("ContainerCreating")], "Pending", "ContainerCreating", "is being started"),
        # A sidecar's trouble counts more than a container that is being started.
        ([waiting("PodInitializing"), waiting("ErrImagePull", "not found")], "Pending", "ErrImagePull", "not found"),
        ([status(state={"running": {}})], "Running", "NotReady", "container plugin runs, but its readiness probe"),
        ([], "Pending", "Pending", "kubelet has not begun"),
    ],
)
def test_containers(statuses: list[dict[str, Any]], phase: str, reason: str, words: str) -> None:
    trouble = diagnose(objects.pod("p", "a", phase=phase, ready=False, statuses=statuses))
    assert trouble is not None
    assert trouble.reason == reason
    assert words in trouble.message


def test_a_ready_pod_has_none() -> None:
    assert diagnose(objects.pod("p", "a")) is None


def test_init_containers_count() -> None:
    pod = objects.pod("p", "a", phase="Pending", ready=False, statuses=[waiting("PodInitializing")])
    pod["status"]["initContainerStatuses"] = [waiting("ImagePullBackOff", "x")]
    trouble = diagnose(pod)
    assert trouble is not None
    assert trouble.reason == "ImagePullBackOff"


def test_terminating() -> None:
    trouble = diagnose(objects.pod("p", "a", terminating=True))
    assert trouble is not None
    assert trouble.reason == "Terminating"


def test_unschedulable() -> None:
    pod = objects.pod("p", None, phase="Pending", ready=False)
    message = "0/2 nodes are available: 1 Insufficient cpu."
    pod["status"]["conditions"].append(
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    )
    trouble = diagnose(pod)
    assert trouble is not None
    assert (
        str(trouble)
        == f"Unschedulable: {message} (free the resources, or add the toleration that the message asks for)"
    )


def test_failed_pod() -> None:
    pod = objects.pod("p", "a", phase="Failed", ready=False)
    pod["status"].update(reason="UnexpectedAdmissionError", message="Allocate failed due to no healthy devices present")
    trouble = diagnose(pod)
    assert trouble is not None
    assert str(trouble) == "UnexpectedAdmissionError: Allocate failed due to no healthy devices present"


def test_long_messages_are_cut() -> None:
    trouble = diagnose(objects.pod("p", "a", ready=False, statuses=[waiting("ImagePullBackOff", "x" * 5000)]))
    assert trouble is not None
    assert len(trouble.message) == 500
