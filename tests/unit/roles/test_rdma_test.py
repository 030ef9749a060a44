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
    ],
)
def test_refused(roles: Roles, given: dict[str, Any], word: str) -> None:
    expression = "rdma_test_rules | selectattr('wrong') | map(attribute='say') | list"
    (problem,) = roles.value("rdma_test", expression, {"rdma_test_image": IMAGE, **given})
    assert word in problem
