# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The computed size of kubelet's device list against the real encoder."""

from __future__ import annotations

import pytest

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.core import message_size


def encoded(fronts: list[str], count: int, numa_nodes: list[list[int]]) -> int:
    """Bytes of the message that the plugin would send with all devices Unhealthy."""
    message = pb.ListAndWatchResponse()
    for index, front in enumerate(fronts):
        for number in range(count):
            device = message.devices.add(ID=f"{front}-{number}", health="Unhealthy")
            for node in numa_nodes[index] if numa_nodes else []:
                device.topology.nodes.add(ID=node)
    return message.ByteSize()


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 999, 1000, 1001])
@pytest.mark.parametrize(
    ("fronts", "numa_nodes"),
    [
        (["rdma.hca"], []),
        (["a" * 57], []),
        (["rdma.hca@0000:17:00.0", "rdma.hca@0000:b8:00.0"], [[0], [1]]),
        (["a", "b", "c"], [[127], [128], [0, 1]]),
        (["x" * 57, "y" * 57], [[], [5]]),
    ],
)
def test_size_is_what_protobuf_makes_of_it(fronts: list[str], numa_nodes: list[list[int]], count: int) -> None:
    assert message_size.message_size(fronts, count, numa_nodes) == encoded(fronts, count, numa_nodes)


def test_the_arithmetic_of_the_kubelet_rules() -> None:
    """Rule 25 counts 43 bytes for a Healthy device with a 24-byte ID and a node; Unhealthy is 2 bytes more."""
    assert message_size.message_size(["x" * 22], 1, [[1]]) == 43 + 2


@pytest.mark.parametrize("fronts", [["a" * 57], ["x" * 57] * 16])
def test_most_is_the_last_count_that_fits(fronts: list[str]) -> None:
    count = message_size.most(fronts)
    assert message_size.message_size(fronts, count) <= message_size.MAX_MESSAGE
    assert message_size.message_size(fronts, count + 1) > message_size.MAX_MESSAGE
    assert message_size.MAX_MESSAGE == 4194304
