# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod asks for, as the scheduler counts it; and which queries find the pods of some nodes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _pods

from tests.unit.plugins import objects
from tests.unit.plugins.conftest import Time
from tests.unit.plugins.fake_api import FakeApi
from tests.unit.plugins.module_utils.test__client import client, name

HCA = objects.hca
SIDECAR: dict[str, Any] = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("init", "containers", "amount"),
    [
        ([], [HCA(1)], 1),
        ([], [HCA(1), HCA(2), objects.container()], 3),
        ([HCA(1)], [HCA(1)], 1),
        ([HCA(5)], [HCA(1), HCA(1)], 5),
        ([HCA(2), HCA(3)], [HCA(1)], 3),
        ([HCA(1, **SIDECAR)], [HCA(2)], 3),
        ([HCA(1, **SIDECAR), HCA(4)], [HCA(2)], 5),
        ([HCA(4), HCA(1, **SIDECAR)], [HCA(2)], 4),
        ([HCA(1, **SIDECAR), HCA(1, **SIDECAR)], [objects.container()], 2),
        ([], [HCA("1k")], 1000),
        ([], [objects.container()], 0),
    ],
)
def test_effective_request(init: list[Any], containers: list[Any], amount: int) -> None:
    assert _pods.effective_request({"initContainers": init, "containers": containers}, "rdma/hca") == amount


class TestBoundTo:
    def fill(self, api: FakeApi, nodes: int, pods: int) -> list[str]:
        """``pods`` on each of ``nodes``, one ended and one unbound; returns the nodes' names."""
        names = [f"n{number:03}" for number in range(nodes)]
        api.add("pods", *(objects.pod(f"{node}-{index}", node) for node in names for index in range(pods)))
        api.add(
            "pods", objects.pod("ended", names[0], phase="Succeeded"), objects.pod("unbound", None, phase="Pending")
        )
        return names

    def test_few_nodes_are_asked_one_by_one(self, api: FakeApi, timing: Time) -> None:
        names = self.fill(api, 9, 2)
        found = _pods.bound_to(client(api.url, timing), names[:8], name)
        assert sorted(found) == [f"n00{node}-{pod}" for node in range(8) for pod in range(2)]
        assert len(api.requests) == 8

    def test_many_nodes_with_few_pods_are_one_list(self, api: FakeApi, timing: Time) -> None:
        names = self.fill(api, 30, 2)
        found = _pods.bound_to(client(api.url, timing), names[:20], name)
        assert len(found) == 40
        assert [request.query.get("limit") for request in api.requests] == ["1", "500"]

    def test_some_nodes_of_a_large_cluster_are_asked_one_by_one(self, api: FakeApi, timing: Time) -> None:
        names = self.fill(api, 30, 10)
        found = _pods.bound_to(client(api.url, timing), names[:20], name)
        assert len(found) == 200
        assert len(api.requests) == 1 + 20

    def test_both_ways_find_the_same(self, api: FakeApi, timing: Time) -> None:
        names = self.fill(api, 20, 3)
        one_by_one = [pod for node in names for pod in _pods.bound_to(client(api.url, timing), [node], name)]
        assert sorted(_pods.bound_to(client(api.url, timing), names, name)) == sorted(one_by_one)
