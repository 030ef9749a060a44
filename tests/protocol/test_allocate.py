# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container gets, and what is refused and how."""

from __future__ import annotations

import shutil

import grpc
import pytest

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from tests.protocol.fake_kubelet import FakeKubelet
from tests.protocol.node import EXCLUSIVE, SHARED, Node

HCA = "rdma/hca"
NIC = "rdma/nic"
BONDS = [f"mlx5_bond_{number}" for number in range(8)]


async def refused(kubelet: FakeKubelet, resource: str, *ids: str) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await kubelet.allocate(resource, *ids)
    return error.value.code(), error.value.details()


def paths(answer: pb.ContainerAllocateResponse) -> list[str]:
    return [device.container_path for device in answer.devices]


async def test_shared_gives_all_nics_of_the_pool(node: Node, kubelet: FakeKubelet) -> None:
    await node.start("--host-dev", "/dev")
    await kubelet.until_offered(HCA, 1000)
    answer = await kubelet.allocate(HCA, "rdma.hca-42")
    assert paths(answer).count("/dev/infiniband/rdma_cm") == 1
    assert sum("uverbs" in path for path in paths(answer)) == 8
    assert len(set(paths(answer))) == len(paths(answer))
    assert all(device.permissions == "rw" for device in answer.devices)
    assert all(device.host_path == device.container_path for device in answer.devices)
    present = {f"/dev/infiniband/{path.name}" for path in (node.dev / "infiniband").iterdir()}
    assert set(paths(answer)) <= present
    assert dict(answer.envs) == {
        "RDMA_DP_RDMA_HCA_DEVICES": ",".join(BONDS),
        "RDMA_DP_RDMA_HCA_PCI": ",".join(function(node, bond) for bond in BONDS),
    }
    assert not answer.mounts
    assert not answer.annotations


def function(node: Node, rdma_device: str) -> str:
    """The PCI address by the simulated machine's own description."""
    return next(device.function for device in node.machine.machine.rdma_devices if device.name == rdma_device)


async def test_several_ids_give_each_node_once(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    one = await kubelet.allocate(HCA, "rdma.hca-0")
    many = await kubelet.allocate(HCA, *(f"rdma.hca-{number}" for number in range(1000)))
    assert one == many


async def test_the_same_id_may_be_asked_for_again(node: Node, kubelet: FakeKubelet) -> None:
    """Kubelet does so for init containers and after restarts (rule 32)."""
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    assert await kubelet.allocate(HCA, "rdma.hca-1") == await kubelet.allocate(HCA, "rdma.hca-1")


async def test_one_answer_per_container(node: Node, kubelet: FakeKubelet) -> None:
    node.write_config(EXCLUSIVE)
    await node.start()
    await kubelet.until_offered(NIC, 8)
    ids = kubelet.healthy(NIC)
    requests = [pb.ContainerAllocateRequest(devices_ids=[ids[0]]), pb.ContainerAllocateRequest(devices_ids=ids[1:3])]
    answer = await kubelet.plugins[NIC].stub.Allocate(pb.AllocateRequest(container_requests=requests))
    found = [container.envs["RDMA_DP_RDMA_NIC_PCI"] for container in answer.container_responses]
    assert found == [ids[0], ",".join(ids[1:3])]


async def test_exclusive_gives_exactly_the_nic_of_the_id(node: Node, kubelet: FakeKubelet) -> None:
    node.write_config(EXCLUSIVE)
    await node.start("--host-dev", "/dev")
    await kubelet.until_offered(NIC, 8)
    assert kubelet.healthy(NIC) == sorted(function(node, bond) for bond in BONDS)
    for bond in ("mlx5_bond_0", "mlx5_bond_5"):
        address = function(node, bond)
        answer = await kubelet.allocate(NIC, address)
        uverbs = next((node.sysfs / "class/infiniband" / bond / "device/infiniband_verbs").iterdir()).name
        assert [path for path in paths(answer) if "uverbs" in path] == [f"/dev/infiniband/{uverbs}"]
        assert "/dev/infiniband/rdma_cm" in paths(answer)
        assert dict(answer.envs) == {
            "RDMA_DP_RDMA_NIC_DEVICES": bond,
            "RDMA_DP_RDMA_NIC_PCI": address,
            "NCCL_IB_HCA": f"={bond}",
        }


async def test_nccl_variable_can_be_switched_off(node: Node, kubelet: FakeKubelet) -> None:
    node.write_config({**EXCLUSIVE, "nccl": False})
    await node.start()
    await kubelet.until_offered(NIC, 8)
    answer = await kubelet.allocate(NIC, kubelet.healthy(NIC)[0])
    assert "NCCL_IB_HCA" not in answer.envs


async def test_ids_that_are_not_ours_are_refused_by_name(node: Node, kubelet: FakeKubelet) -> None:
    node.write_config(
        {**SHARED, "selectors": {"rdmaDevices": BONDS[:4]}},
        {**EXCLUSIVE, "selectors": {"rdmaDevices": BONDS[4:]}},
    )
    await node.start("--listen", "127.0.0.1:0")
    await kubelet.until_offered(HCA, 1000)
    await kubelet.until_offered(NIC, 4)
    foreign = kubelet.healthy(NIC)[0]
    for ids, code, part in [
        (["99999"], grpc.StatusCode.NOT_FOUND, "'99999'"),
        (["rdma.hca-1000"], grpc.StatusCode.NOT_FOUND, "'rdma.hca-1000'"),
        (["rdma.hca-0", "rdma.hca-01"], grpc.StatusCode.NOT_FOUND, "'rdma.hca-01'"),
        ([foreign], grpc.StatusCode.INVALID_ARGUMENT, f"'{foreign}' belongs to {NIC}"),
        (["rdma.hca-3", "rdma.hca-3"], grpc.StatusCode.INVALID_ARGUMENT, "'rdma.hca-3' is named twice"),
        ([], grpc.StatusCode.INVALID_ARGUMENT, "names no device"),
    ]:
        found, text = await refused(kubelet, HCA, *ids)
        assert found == code, ids
        assert part in text
        assert text.startswith(f"{HCA}: ")
    assert await node.metric("rdma_dp_allocations_total", resource=HCA, result="refused") == 6
    with pytest.raises(grpc.aio.AioRpcError, match="names no container"):
        await kubelet.plugins[HCA].stub.Allocate(pb.AllocateRequest())


async def test_no_usable_nic_is_refused_not_answered_with_nothing(node: Node, kubelet: FakeKubelet) -> None:
    """The nodes vanish between the last look and the call: the answer must not be a container without RDMA."""
    node.write_config(SHARED, health={"pollInterval": 3600})
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    shutil.rmtree(node.dev / "infiniband")
    code, text = await refused(kubelet, HCA, "rdma.hca-0")
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert f"{node.dev}/infiniband" in text
    await kubelet.until_offered(HCA, 0)  # and the list says so too (rule 34)
    assert kubelet.capacity(HCA) == 1000


async def test_nodes_renumbered_since_the_last_look_are_found_anew(node: Node, kubelet: FakeKubelet) -> None:
    node.write_config(EXCLUSIVE, health={"pollInterval": 3600})
    await node.start("--host-dev", "/dev")
    await kubelet.until_offered(NIC, 8)
    address = function(node, "mlx5_bond_0")
    before = paths(await kubelet.allocate(NIC, address))
    node.machine.reload_driver()
    after = paths(await kubelet.allocate(NIC, address))
    uverbs = next((node.sysfs / "class/infiniband/mlx5_bond_0/device/infiniband_verbs").iterdir()).name
    assert f"/dev/infiniband/{uverbs}" in after
    assert before != after


async def test_preferred_allocation_has_no_preference_and_no_error(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    wish = pb.ContainerPreferredAllocationRequest(available_deviceIDs=["rdma.hca-0", "x"], allocation_size=1)
    request = pb.PreferredAllocationRequest(container_requests=[wish])
    answer = await kubelet.plugins[HCA].stub.GetPreferredAllocation(request)
    assert [list(container.deviceIDs) for container in answer.container_responses] == [[]]


async def test_log_has_one_short_line_per_allocation(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    await kubelet.allocate(HCA, *(f"rdma.hca-{number}" for number in range(1000)))
    line = await node.until_logged(" allocated ")
    assert "resource=rdma/hca count=1000 ids=rdma.hca-0" in line
    assert len(line) < 300
