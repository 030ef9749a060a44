# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the start of the plugin to the first list, and back again whenever kubelet or the stream goes away."""

from __future__ import annotations

import asyncio

import pytest

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from tests.protocol.fake_kubelet import FakeKubelet, leave_dead_socket, running
from tests.protocol.node import EXCLUSIVE, SHARED, Node

HCA = "rdma/hca"


async def test_registers_and_sends_the_whole_list(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    plugin = kubelet.plugins[HCA]
    assert list(plugin.devices) == [f"rdma.hca-{number}" for number in range(1000)]
    assert {device.health for device in plugin.devices.values()} == {"Healthy"}
    assert not any(device.HasField("topology") for device in plugin.devices.values())
    assert plugin.messages == 1
    request = kubelet.requests[0]
    assert (request.version, request.resource_name) == ("v1beta1", HCA)
    assert plugin.options == plugin.announced  # rule 11
    assert not plugin.options.pre_start_required
    assert not plugin.options.get_preferred_allocation_available


async def test_socket_has_a_name_of_its_own_and_is_closed_to_others(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    [name] = node.sockets()
    assert kubelet.requests[0].endpoint == name
    assert len(name) <= 75  # rule 4
    assert (node.kubelet_dir / name).stat().st_mode & 0o777 == 0o600


async def test_long_resource_name_still_gives_a_socket_name_that_fits(node: Node, kubelet: FakeKubelet) -> None:
    prefix, name = ".".join(["a" * 40] * 5), "n" * 63
    node.write_config({**SHARED, "resourcePrefix": prefix, "resourceName": name, "rdmaHcaMax": 10})
    await node.start()
    await kubelet.until_offered(f"{prefix}/{name}", 10)
    assert len(node.sockets()[0]) <= 75
    ids = kubelet.healthy(f"{prefix}/{name}")
    assert len(set(ids)) == 10
    assert max(map(len, ids)) <= 63  # rule 22


async def test_one_socket_and_one_registration_per_resource(node: Node, kubelet: FakeKubelet) -> None:
    first, second = ["mlx5_bond_0"], ["mlx5_bond_[1-7]"]
    node.write_config(
        {**SHARED, "selectors": {"rdmaDevices": first}, "rdmaHcaMax": 5},
        {**EXCLUSIVE, "selectors": {"rdmaDevices": second}},
    )
    await node.start()
    await kubelet.until_offered(HCA, 5)
    await kubelet.until_offered("rdma/nic", 7)
    assert len(node.sockets()) == 2
    nodes = [[node.ID for node in device.topology.nodes] for device in kubelet.plugins["rdma/nic"].devices.values()]
    assert sorted(map(tuple, nodes)) == [(0,)] * 3 + [(1,)] * 4


async def test_waits_for_a_kubelet_that_comes_later(node: Node) -> None:
    async with running(FakeKubelet(node.kubelet_dir)) as kubelet:
        await node.start("--listen", "127.0.0.1:0")
        await node.until_logged("waiting for kubelet: there is no kubelet.sock")
        code, reason = await node.get("/readyz")
        assert code == 503
        assert "rdma/hca: waiting for kubelet" in reason
        assert (await node.get("/healthz"))[0] == 200, "a kubelet that is away is no reason to restart the plugin"
        await kubelet.start()
        assert await kubelet.until_offered(HCA, 1000) < 1
    assert node.process.returncode is None


@pytest.mark.parametrize("leave_socket", [False, True], ids=["stopped", "killed"])
async def test_kubelet_restart(node: Node, kubelet: FakeKubelet, leave_socket: bool) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    before = kubelet.healthy(HCA)
    await kubelet.stop(leave_socket=leave_socket)
    await node.until_logged("waiting for kubelet")
    await kubelet.start()
    assert await kubelet.until_offered(HCA, 1000) < 1
    assert kubelet.healthy(HCA) == before  # the same IDs
    first, second = kubelet.requests
    assert first.endpoint != second.endpoint  # Python trap 1
    assert node.sockets() == [second.endpoint]


async def test_ten_kubelet_restarts_in_a_row(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    times = []
    for round_ in range(10):
        await kubelet.stop(leave_socket=round_ % 2 == 0)
        await kubelet.start(delete_sockets=round_ % 3 != 0)
        times.append(await kubelet.until_offered(HCA, 1000))
    assert max(times) < 1, times
    assert len(kubelet.requests) == 11
    assert node.sockets() == [kubelet.requests[-1].endpoint]


async def test_new_kubelet_while_the_old_one_is_still_connected(node: Node, kubelet: FakeKubelet) -> None:
    """The plugin sees the new socket before it sees the end of the old stream: it must end that one first (rule 29)."""
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    old = kubelet.plugins[HCA]
    async with running(FakeKubelet(node.kubelet_dir)) as successor:
        await successor.start()
        assert await successor.until_offered(HCA, 1000) < 1
        await kubelet.until(lambda: not old.live)


@pytest.mark.parametrize("keyed_by_name", [False, True], ids=["new kubelet", "old kubelet"])
async def test_lost_stream_is_replaced_within_a_second(node: Node, keyed_by_name: bool) -> None:
    async with running(FakeKubelet(node.kubelet_dir, keyed_by_name=keyed_by_name)) as kubelet:
        await kubelet.start()
        await node.start()
        await kubelet.until_offered(HCA, 1000)
        for _unused in range(3):
            await kubelet.drop_stream(HCA)
            await kubelet.until_offered(HCA, 0)
            await kubelet.until_offered(HCA, 1000, within=2)
        assert len({request.endpoint for request in kubelet.requests}) == 4


async def test_old_kubelet_that_dials_back_after_its_answer(node: Node, kubelet: FakeKubelet) -> None:
    kubelet.dial_after_answer = True
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    assert len(kubelet.requests) == 1


async def test_refused_registration_says_what_kubelet_said_and_is_tried_again(node: Node, kubelet: FakeKubelet) -> None:
    kubelet.refuse = "the ResourceName is not to my liking"
    await node.start("--listen", "127.0.0.1:0")
    line = await node.until_logged("not to my liking")
    assert "resource=rdma/hca" in line
    await kubelet.until(lambda: len(kubelet.requests) >= 3)
    assert await node.metric("rdma_dp_registrations_total", resource=HCA, result="refused") >= 2
    kubelet.refuse = ""
    await kubelet.until_offered(HCA, 1000)
    assert await node.metric("rdma_dp_registrations_total", resource=HCA, result="ok") == 1


async def test_hanging_register_does_not_keep_the_plugin_from_stopping(node: Node, kubelet: FakeKubelet) -> None:
    kubelet.hang = True
    await node.start()
    await kubelet.until(lambda: len(kubelet.requests) == 1)
    assert await node.stop() < 2


async def test_a_stream_that_somebody_else_opens_and_closes_changes_nothing(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    stub = kubelet.plugins[HCA].stub
    stream = stub.ListAndWatch(pb.Empty())
    assert len((await stream.read()).devices) == 1000
    stream.cancel()
    await asyncio.sleep(0.3)  # longer than the shortest pause before a new registration
    assert len(kubelet.requests) == 1
    assert len(kubelet.healthy(HCA)) == 1000


async def test_own_leftovers_are_removed_and_nothing_else(node: Node, kubelet: FakeKubelet) -> None:
    dead = node.kubelet_dir / "rdma-dp-rdma_hca-0a1b2c-7.sock"
    others = [node.kubelet_dir / "nvidia-gpu.sock", node.kubelet_dir / "rdma-dp-rdma_hca-0a1b2c-7.sock.bak"]
    for path in [dead, *others]:
        leave_dead_socket(path)
    plain = node.kubelet_dir / "rdma-dp-rdma_hca-0a1b2c-8.sock"
    plain.write_text("somebody's file")
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    await node.until(lambda: not dead.exists(), what="the dead socket is gone")
    assert all(path.exists() for path in [*others, plain])
    assert node.sockets().count(kubelet.requests[0].endpoint) == 1


async def test_two_plugins_leave_each_others_sockets_alone(node: Node, kubelet: FakeKubelet) -> None:
    """As during a change of mode: the old mode's plugin may still run when the new one starts."""
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    other = Node.beside(node, "other")
    other.write_config(EXCLUSIVE)
    await other.start()
    try:
        await kubelet.until_offered("rdma/nic", 8)
        await other.until_logged("registered with kubelet")
        await asyncio.sleep(1.2)  # the leftovers are looked at twice, a second apart
        assert len(node.sockets()) == 2
        assert len(kubelet.healthy(HCA)) == 1000
        await other.stop()
        assert node.sockets() == [kubelet.plugins[HCA].endpoint]
    finally:
        await other.kill()
