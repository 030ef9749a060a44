# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session against a scripted kubelet, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.kubelet_client import RegisterError
from rdma_dp.kubelet_dir import Listing, SocketId
from rdma_dp.latest import Latest
from rdma_dp.logs import Log
from rdma_dp.session import STREAM_TIMEOUT, EndpointError, Session, State, Stream, broken
from tests.unit.virtual_time import now, run

Answer = Callable[["Endpoint"], Awaitable[None]]


class Endpoint:
    """A generation without a server."""

    options = pb.DevicePluginOptions()

    def __init__(self, generation: int) -> None:
        self.name = f"generation-{generation}"
        self.stream = Latest(Stream.NONE)
        self.present = True
        self.stopped = False

    def socket_present(self) -> bool:
        return self.present

    async def stop(self) -> None:
        if self.stream.value is Stream.LIVE:
            self.stream.publish(Stream.ENDED)
        self.stopped = True


async def opens_stream(endpoint: Endpoint) -> None:
    endpoint.stream.publish(Stream.LIVE)


async def opens_no_stream(endpoint: Endpoint) -> None:
    return None


async def refuses(endpoint: Endpoint) -> None:
    raise RegisterError("refused", "kubelet refused it (UNKNOWN: no)")


class World:
    """The kubelet, the endpoints, and what has happened."""

    def __init__(self, running: bool = True) -> None:
        self.listing = Latest(Listing())
        self.listening = False
        self.answer: Answer = opens_stream
        self.endpoints: list[Endpoint] = []
        self.registered: list[tuple[float, str]] = []  # when, which generation
        self.results: list[str] = []
        self.listen_error = ""
        self._inode = 0
        if running:
            self.start_kubelet()
        self.session = Session(
            "rdma/hca", self, self._listen, log=Log(), registered=self.results.append, random=lambda: 0.5
        )

    def start_kubelet(self) -> None:
        self._inode += 1
        self.listening = True
        self.listing.publish(Listing(SocketId(1, self._inode, self._inode), frozenset({"kubelet.sock"})))

    def stop_kubelet(self, *, leave_socket: bool) -> None:
        self.listening = False
        if not leave_socket:
            self.listing.publish(Listing())
        self.end_stream()

    def end_stream(self) -> None:
        if self.endpoints:
            self.endpoints[-1].stream.publish(Stream.ENDED)

    # what a session asks of kubelet

    def look(self) -> Listing:
        return self.listing.value

    def listens(self) -> bool:
        return self.listening

    async def register(self, resource: str, endpoint: str, options: pb.DevicePluginOptions) -> None:
        assert resource == "rdma/hca"
        live = [one.name for one in self.endpoints if one.stream.value is Stream.LIVE]
        assert not live, f"{endpoint} registers while the stream of {live} is live (KUBELET.md rule 29)"
        assert all(one.stopped for one in self.endpoints[:-1]), "an endpoint of before is still served"
        self.registered.append((now(), endpoint))
        await self.answer(self.endpoints[-1])

    async def _listen(self) -> Endpoint:
        if self.listen_error:
            raise EndpointError(self.listen_error)
        self.endpoints.append(Endpoint(len(self.endpoints) + 1))
        return self.endpoints[-1]


@asynccontextmanager
async def session(world: World) -> AsyncIterator[Session]:
    """A running session, cancelled at the end; then nothing of it may be left."""
    task = asyncio.create_task(world.session.run())
    await asyncio.sleep(0.001)
    try:
        yield world.session
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert all(endpoint.stopped for endpoint in world.endpoints)
        assert world.session.state is State.STOPPED


def test_registers_at_once_with_a_kubelet_that_is_there() -> None:
    async def scenario() -> None:
        world = World()
        async with session(world) as it:
            assert it.connected
            assert world.registered == [(0.0, "generation-1")]
            assert world.results == ["ok"]

    run(scenario())


def test_waits_for_a_kubelet_that_is_away_for_hours_and_registers_the_moment_it_is_back() -> None:
    async def scenario() -> None:
        world = World(running=False)
        async with session(world) as it:
            await asyncio.sleep(3 * 3600)
            assert it.state is State.WAITING
            assert not world.endpoints, "no socket while there is nobody to register with"
            world.start_kubelet()
            before = now()
            await asyncio.sleep(0.001)
            assert it.connected
            assert world.registered[0][0] == before

    run(scenario())


def test_a_socket_nobody_listens_on_is_tried_until_somebody_does() -> None:
    """Kubelet binds its socket some time before it listens; then nothing in the directory changes any more."""

    async def scenario() -> None:
        world = World()
        world.listening = False
        async with session(world) as it:
            await asyncio.sleep(60)
            assert it.state is State.WAITING
            world.listening = True
            await asyncio.sleep(5.1)  # at most the longest pause
            assert it.connected

    run(scenario())


def test_a_lost_stream_leads_to_a_new_generation_within_a_second_but_not_at_once() -> None:
    """At once would race with an older kubelet's clean-up of the old stream (rule 29)."""

    async def scenario() -> None:
        world = World()
        async with session(world) as it:
            await asyncio.sleep(100)
            world.end_stream()
            ended = now()
            await asyncio.sleep(1)
            assert it.connected
            assert [name for _unused, name in world.registered] == ["generation-1", "generation-2"]
            assert 0.2 <= world.registered[1][0] - ended < 1
            assert world.endpoints[0].stopped

    run(scenario())


@pytest.mark.parametrize("leave_socket", [False, True], ids=["socket removed", "socket left behind"])
def test_a_kubelet_restart_leads_to_a_registration_the_moment_the_new_socket_is_there(leave_socket: bool) -> None:
    async def scenario() -> None:
        world = World()
        async with session(world) as it:
            await asyncio.sleep(10)
            world.stop_kubelet(leave_socket=leave_socket)
            await asyncio.sleep(33)  # long enough for the pauses to have grown to 5 s
            assert it.state is State.WAITING
            assert len(world.registered) == 1
            world.start_kubelet()
            back = now()
            await asyncio.sleep(0.001)
            assert it.connected
            assert world.registered[1] == (back, "generation-2")

    run(scenario())


def test_a_new_kubelet_socket_ends_a_stream_that_is_still_live_before_it_registers() -> None:
    async def scenario() -> None:
        world = World()
        async with session(world) as it:
            await asyncio.sleep(10)
            world.start_kubelet()  # World.register fails if the old stream were still live
            await asyncio.sleep(0.001)
            assert it.connected
            assert [name for _unused, name in world.registered] == ["generation-1", "generation-2"]

    run(scenario())


def test_nothing_but_its_end_or_a_new_kubelet_makes_a_live_stream_register_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        world = World()
        async with session(world) as it:
            world.endpoints[0].present = False  # somebody emptied the directory
            world.listing.publish(Listing(exists=False))
            await asyncio.sleep(3600)
            assert it.connected
            assert len(world.registered) == 1

    run(scenario())
    assert [r.message for r in caplog.records if "was removed" in r.message] == [
        "our socket's file was removed; kubelet is still connected, so nothing is lost yet"
    ]


def test_a_registration_without_a_stream_is_named_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        world = World()
        world.answer = opens_no_stream
        async with session(world) as it:
            await asyncio.sleep(STREAM_TIMEOUT + 0.1)
            assert not it.connected
            assert "opened no ListAndWatch within 10 s" in it.problem
            world.answer = opens_stream
            await asyncio.sleep(STREAM_TIMEOUT)
            assert it.connected
            assert it.problem == ""

    run(scenario())
    assert any("opened no ListAndWatch" in record.message for record in caplog.records)


def test_a_socket_that_vanishes_before_the_stream_is_opened_is_replaced() -> None:
    async def scenario() -> None:
        world = World()
        world.answer = opens_no_stream
        async with session(world):
            await asyncio.sleep(1)
            world.answer = opens_stream
            world.endpoints[0].present = False
            world.listing.publish(Listing(world.listing.value.kubelet, frozenset({"kubelet.sock", "other.sock"})))
            await asyncio.sleep(1)
            assert [name for _unused, name in world.registered] == ["generation-1", "generation-2"]

    run(scenario())


def test_refusals_are_retried_at_growing_intervals_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> World:
        world = World()
        world.answer = refuses
        async with session(world) as it:
            await asyncio.sleep(130)
            assert it.state is State.RETRYING
        return world

    world = run(scenario())
    times = [when for when, _unused in world.registered]
    pauses = [round(after - before, 3) for before, after in itertools.pairwise(times)]
    assert pauses[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(pauses[6:]) == {5.0}
    assert set(world.results) == {"refused"}
    assert sum("refused it" in record.message for record in caplog.records) == 3


def test_an_answer_that_comes_too_late_leads_to_no_second_registration() -> None:
    """Kubelet took its time, but opened the stream: the registration holds."""

    async def answers_late(endpoint: Endpoint) -> None:
        endpoint.stream.publish(Stream.LIVE)
        await asyncio.sleep(10)
        raise RegisterError("timeout", "kubelet did not answer within 10 s")

    async def scenario() -> None:
        world = World()
        world.answer = answers_late
        async with session(world) as it:
            await asyncio.sleep(100)
            assert it.connected
            assert len(world.registered) == 1
            assert world.results == ["timeout"]

    run(scenario())


def test_a_socket_that_cannot_be_made_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        world = World()
        world.listen_error = "cannot listen on a socket in /dp: no permission"
        async with session(world) as it:
            await asyncio.sleep(20)
            assert it.problem == world.listen_error
            world.listen_error = ""
            await asyncio.sleep(5.1)
            assert it.connected

    run(scenario())
    assert sum("no permission" in record.message for record in caplog.records) == 1


def test_two_plugins_that_take_a_resource_from_each_other_slow_down_and_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each registration of the other ends our stream: the pauses must grow to seconds, not stay at 0.2."""

    async def is_replaced(endpoint: Endpoint) -> None:
        endpoint.stream.publish(Stream.LIVE)
        asyncio.get_running_loop().call_later(0.1, endpoint.stream.publish, Stream.ENDED)

    async def scenario() -> World:
        world = World()
        world.answer = is_replaced
        async with session(world):
            await asyncio.sleep(60)
        return world

    assert len(run(scenario()).registered) < 20
    asking = [record.message for record in caplog.records if "does another plugin offer rdma/hca?" in record.message]
    assert asking
    assert "3 times in a row" in asking[0]


def test_a_cancelled_session_stops_while_register_hangs() -> None:
    async def hangs(endpoint: Endpoint) -> None:
        await asyncio.sleep(3600)

    async def scenario() -> None:
        world = World()
        world.answer = hangs
        async with session(world) as it:
            assert it.state is State.REGISTERING
        assert now() < 1

    run(scenario())


KUBELET, OTHER = SocketId(1, 1, 1), SocketId(1, 1, 2)


@pytest.mark.parametrize(
    ("stream", "kubelet", "present", "overdue", "reason"),
    [
        (Stream.LIVE, KUBELET, True, True, None),
        (Stream.LIVE, KUBELET, False, True, None),
        (Stream.LIVE, None, True, True, None),
        (Stream.LIVE, OTHER, True, False, "new kubelet.sock"),
        (Stream.ENDED, KUBELET, True, False, "stream ended"),
        (Stream.NONE, KUBELET, True, False, None),
        (Stream.NONE, KUBELET, True, True, "no ListAndWatch"),
        (Stream.NONE, KUBELET, False, False, "removed before"),
        (Stream.NONE, OTHER, True, False, "new kubelet.sock"),
    ],
)
def test_what_breaks_a_registration(
    stream: Stream, kubelet: SocketId | None, present: bool, overdue: bool, reason: str | None
) -> None:
    found = broken(stream, KUBELET, Listing(kubelet), present, overdue)
    assert (found is None) if reason is None else (found is not None and reason in found)


@pytest.fixture(autouse=True)
def _capture_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="rdma_dp")
