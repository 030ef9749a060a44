# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two Jobs of the ACK page, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.roles.conftest import Roles

Render = Callable[..., dict[str, Any]]
IMAGE = "registry.example/rdma-test:0.1.0"


@pytest.fixture
def render(roles: Roles) -> Render:
    """Job's name to object, for the given variables."""

    def make(**given: Any) -> dict[str, Any]:
        jobs = roles.value("rdma_test", "rdma_test_manifests", {"rdma_test_image": IMAGE, **given})
        return {job["metadata"]["name"]: job for job in jobs}

    return make


def pod(job: dict[str, Any]) -> dict[str, Any]:
    spec = job["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.mark.parametrize(
    ("name", "host_network"), [("rdma-hostnetwork-test", True), ("rdma-non-hostnetwork-test", False)]
)
def test_jobs_are_those_of_the_ack_page(render: Render, name: str, host_network: bool) -> None:
    """Word for word what the page shows, plus what is ours by intent (image, environment, an end)."""
    job = render(device_plugin_non_host_network=True)[name]
    spec = pod(job)
    (container,) = spec["containers"]
    assert job["spec"]["parallelism"] == 1
    assert spec["hostNetwork"] is host_network
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["restartPolicy"] == "Never"
    assert spec["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]
    assert container["name"] == "rdma-test"
    assert container["image"] == IMAGE
    assert container["command"] == ["sh", "-c", "python /workspace/benchmark.py\n"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8, "rdma/hca": 1}}
    assert container["workingDir"] == "/root"
    assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert container["securityContext"] == {"capabilities": {"add": ["SYS_RESOURCE", "IPC_LOCK"]}}


def test_jobs_end(render: Render) -> None:
    job = render(rdma_test_timeout="60")["rdma-hostnetwork-test"]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["activeDeadlineSeconds"] > 60


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["rdma-hostnetwork-test"]),
        ({"device_plugin_non_host_network": False}, ["rdma-hostnetwork-test"]),
        ({"device_plugin_non_host_network": "false"}, ["rdma-hostnetwork-test"]),
        ({"device_plugin_non_host_network": "no"}, ["rdma-hostnetwork-test"]),
        ({"device_plugin_non_host_network": "0"}, ["rdma-hostnetwork-test"]),
        ({"device_plugin_non_host_network": True}, ["rdma-hostnetwork-test", "rdma-non-hostnetwork-test"]),
        ({"device_plugin_non_host_network": "yes"}, ["rdma-hostnetwork-test", "rdma-non-hostnetwork-test"]),
        ({"rdma_test_jobs": "non-hostnetwork"}, ["rdma-non-hostnetwork-test"]),
        ({"rdma_test_jobs": "hostnetwork, non-hostnetwork"}, ["rdma-hostnetwork-test", "rdma-non-hostnetwork-test"]),
        ({"rdma_test_jobs": ["hostnetwork"], "device_plugin_non_host_network": True}, ["rdma-hostnetwork-test"]),
    ],
)
def test_which_jobs_run(render: Render, given: dict[str, Any], names: list[str]) -> None:
    assert list(render(**given)) == names


@pytest.mark.parametrize("none", [0, "0"])
def test_no_gpus(render: Render, none: Any) -> None:
    (container,) = pod(render(rdma_test_gpus=none)["rdma-hostnetwork-test"])["containers"]
    assert container["resources"] == {"limits": {"rdma/hca": 1}}


def test_resource_follows_its_variable(render: Render) -> None:
    job = render(lingjun_rdma_resource_name="example.com/nic", rdma_test_gpus="2", rdma_test_devices="4")
    (container,) = pod(job["rdma-hostnetwork-test"])["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 2, "example.com/nic": 4}}


def test_command_as_text_goes_to_a_shell(render: Render) -> None:
    (container,) = pod(render(rdma_test_command='ib_write_bw --report_gbits | tee "it\'s"')["rdma-hostnetwork-test"])[
        "containers"
    ]
    assert container["command"] == ["sh", "-c", 'ib_write_bw --report_gbits | tee "it\'s"']


def test_more_environment_and_volumes(render: Render) -> None:
    job = render(
        rdma_test_env={"NCCL_DEBUG": "INFO", "N": 1},
        rdma_test_shm_size="64Gi",
        rdma_test_volumes=[{"name": "data", "emptyDir": {}}],
        rdma_test_volume_mounts=[{"name": "data", "mountPath": "/data"}],
    )["rdma-hostnetwork-test"]
    (container,) = pod(job)["containers"]
    assert container["env"] == [
        {"name": "EXPECT_SHM", "value": "64Gi"},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "N", "value": "1"},
    ]
    assert [volume["name"] for volume in pod(job)["volumes"]] == ["shm", "data"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/dev/shm", "/data"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"rdma_test_image": ""}, "rdma_test_image is not set"),
        ({"rdma_test_jobs": ["hostNetwork"]}, "rdma_test_jobs"),
        ({"rdma_test_jobs": []}, "rdma_test_jobs"),
        ({"lingjun_rdma_resource_name": "hca"}, "lingjun_rdma_resource_name"),
        ({"rdma_test_image": "registry.example/a;b"}, "rdma_test_image is no image name: registry.example/a;b"),
        ({"rdma_test_image": "registry.example/ü:1"}, "rdma_test_image is no image name"),
        ({"rdma_test_devices": 0}, "rdma_test_devices is 0"),
        ({"rdma_test_devices": "-1"}, "rdma_test_devices is -1"),
        ({"rdma_test_gpus": -1}, "rdma_test_gpus is -1"),
        ({"rdma_test_gpu_resource": "gpu"}, "rdma_test_gpu_resource is gpu"),
        ({"rdma_test_parallelism": 0}, "rdma_test_parallelism is 0"),
        ({"rdma_test_shm_size": "8GB"}, "rdma_test_shm_size is 8GB"),
        ({"rdma_test_shm_size": "-8Gi"}, "like 8Gi"),
        ({"rdma_test_shm_size": ""}, "rdma_test_shm_size"),
        ({"rdma_test_timeout": -5}, "rdma_test_timeout is -5"),
    ],
)
def test_refused(roles: Roles, given: dict[str, Any], word: str) -> None:
    (problem,) = problems(roles, given)
    assert word in problem


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rdma_test_shm_size": 8589934592},
        {"rdma_test_shm_size": "1.5Ti"},
        {"rdma_test_shm_size": "8e9"},
        {"rdma_test_image": "localhost/lingjun/rdma-test:0.1.0"},
        {"rdma_test_image": "[fd00::1]:5000/Team_a/rdma-test@sha256:" + "0" * 64},
        {"rdma_test_gpus": "0", "rdma_test_gpu_resource": ""},
    ],
)
def test_accepted(roles: Roles, given: dict[str, Any]) -> None:
    assert problems(roles, given) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, []),
        ({"rdma_test_gpus": "9"}, ["rdma_test_gpus is 9", "nvidia.com/gpu", "offers is 8"]),
        ({"rdma_test_devices": 1001}, ["rdma_test_devices is 1001", "rdma/hca", "offers is 1000"]),
        ({"rdma_test_gpu_resource": "amd.com/gpu"}, ["rdma_test_gpus is 8", "amd.com/gpu", "offers is 0"]),
        ({"rdma_test_gpu_resource": "amd.com/gpu", "rdma_test_gpus": 0}, []),
    ],
)
def test_more_than_any_node_has(roles: Roles, given: dict[str, Any], words: list[str]) -> None:
    offered = [{"rdma/hca": 1000, "nvidia.com/gpu": 4}, {"rdma/hca": 500, "nvidia.com/gpu": 8}]
    facts = {"rdma_test_found_nodes": {"nodes": [{"allocatable": amounts} for amounts in offered]}}
    found = problems(roles, given, facts, "rdma_test_node_rules")
    assert len(found) == bool(words)
    assert not [word for word in words if word not in found[0]]


@pytest.mark.parametrize(
    ("state", "reason", "remedy"),
    [
        ("running", "ImagePullBackOff", "Check rdma_test_image, the registry and the pull secrets"),
        ("running", "ErrImageNeverPull", "Load rdma_test_image on the node"),
        ("running", "Unschedulable", "Correct what the message says"),
        ("failed", "Error", "The log above"),
    ],
)
def test_what_to_do_about_a_job(roles: Roles, state: str, reason: str, remedy: str) -> None:
    job = {"name": "rdma-hostnetwork-test", "state": state, "pods": [{"reason": reason}]}
    good = {"name": "rdma-non-hostnetwork-test", "state": "complete", "pods": [{"reason": ""}]}
    facts = {"rdma_test_ended": {"jobs": [job, good]}}
    assert roles.value("rdma_test", "rdma_test_remedy", {}, facts).startswith(remedy)


def problems(
    roles: Roles, given: dict[str, Any], facts: dict[str, Any] | None = None, rules: str = "rdma_test_rules"
) -> list[str]:
    expression = f"{rules} | selectattr('wrong') | map(attribute='say') | list"
    found = roles.value("rdma_test", expression, {"rdma_test_image": IMAGE, **given}, facts)
    assert isinstance(found, list)
    return found
