# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One resource's life with kubelet: listen, register, watch the stream, and all over again when any of it ends.

A session is the only owner of its resource's endpoint, and has at most one at a time, so two registrations can't race.
Clock and timers are the event loop's, and kubelet, endpoints and dice are passed in: a test runs it in virtual time.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.backoff import Backoff
from rdma_dp.kubelet_client import RegisterError
from rdma_dp.kubelet_dir import Listing, SocketId
from rdma_dp.latest import Latest, happens, watching
from rdma_dp.logs import Log

STREAM_TIMEOUT = 10.0  # s that kubelet may take from Register to ListAndWatch
STEADY = 5.0  # s after which a stream counts as a success, and the next failure as the first
SUSPICIOUS = 3  # streams that ended early before the log asks for another plugin
MISSED = 1.0  # s after which it is worth a warning that our socket's file is gone
REPEAT = 60.0  # s after which an unchanged complaint is logged once more


class Stream(enum.Enum):
    """Kubelet's ListAndWatch on one endpoint: opened once per registration, and its end is final (rules 19 and 26)."""

    NONE = "none"
    LIVE = "live"
    ENDED = "ended"


class State(enum.Enum):
    """Where a session is."""

    WAITING = "waiting for kubelet"
    REGISTERING = "registering"
    CONNECTED = "connected"
    RETRYING = "retrying"
    STOPPED = "stopped"


class EndpointError(Exception):
    """An endpoint can't be served; the text says why."""


class Endpoint(Protocol):
    """A served socket: one generation of a resource."""

    @property
    def name(self) -> str:
        """The socket's file name in kubelet's directory."""

    @property
    def options(self) -> pb.DevicePluginOptions:
        """What Register announces; equal to what GetDevicePluginOptions answers (rule 11)."""

    @property
    def stream(self) -> Latest[Stream]:
        """Kubelet's stream."""

    def socket_present(self) -> bool:
        """Whether the socket's file is still there."""

    async def stop(self) -> None:
        """Ends the stream, then the server; returns when both are gone."""


class Kubelet(Protocol):
    """Kubelet, seen from here."""

    def look(self) -> Listing:
        """What its directory holds at this moment."""

    @property
    def listing(self) -> Latest[Listing]:
        """The same, as of the last change that was noticed."""

    def listens(self) -> bool:
        """Whether somebody accepts connections on kubelet.sock."""

    async def register(self, resource: str, endpoint: str, options: pb.DevicePluginOptions) -> None:
        """Raises RegisterError."""


def broken(
    stream: Stream, registered_with: SocketId | None, listing: Listing, socket_present: bool, overdue: bool
) -> str | None:
    """Why a registration no longer holds; None while it does. ``overdue``: kubelet had STREAM_TIMEOUT for its stream.

    While the stream is live and kubelet the same, nothing else is a reason: registering with a kubelet that is still
    connected may end with allocatable stuck at 0 (rule 29). Even our own socket's file is not needed any more then.
    """
    if stream is Stream.ENDED:
        return "the ListAndWatch stream ended"
    if listing.kubelet is not None and listing.kubelet != registered_with:
        return "there is a new kubelet.sock"
    if stream is Stream.NONE and not socket_present:
        return "our socket was removed before kubelet opened its stream"
    if stream is Stream.NONE and overdue:
        return (
            f"kubelet accepted the registration but opened no ListAndWatch within {STREAM_TIMEOUT:g} s; "
            "its log tells why (search it for the resource's name)"
        )
    return None


class Session:
    """Run it as a task; cancelling the task stops the endpoint and removes its socket."""

    def __init__(
        self,
        resource: str,
        kubelet: Kubelet,
        listen: Callable[[], Awaitable[Endpoint]],
        *,
        log: Log,
        registered: Callable[[str], None],
        random: Callable[[], float],
    ) -> None:
        """``listen`` yields a new endpoint that has passed its self-check, or raises EndpointError.

        ``registered(result)`` is called for each attempt: ok, refused, timeout, unavailable.
        """
        self.resource = resource
        self.state = State.WAITING
        self.problem = ""  # the last one, until the next registration
        self.registrations = 0
        self.endpoint: Endpoint | None = None
        self._kubelet = kubelet
        self._listen = listen
        self._log = log.bind(resource=resource)
        self._registered = registered
        self._random = random
        self._told = -REPEAT
        self._lost_early = 0  # streams in a row, of one kubelet, that ended before they were steady

    @property
    def connected(self) -> bool:
        """Whether kubelet has a live stream: only then does the node offer the resource."""
        return self.state is State.CONNECTED

    async def run(self) -> None:
        """Keeps the resource registered until it is cancelled."""
        backoff = Backoff()
        try:
            while True:
                kubelet = self._kubelet.look().kubelet
                if kubelet is not None and self._kubelet.listens():
                    steady = await self._register_and_hold(kubelet)
                else:
                    steady = False
                    self._wait_for_kubelet(kubelet)
                # Never at once: after a stream's end an older kubelet must first clean up what it had of us (rule 29).
                backoff = (backoff.reset() if steady else backoff).failed()
                if await self._new_kubelet(kubelet, within=backoff.delay(self._random)):
                    backoff, self._lost_early = backoff.reset(), 0
        finally:
            self.state = State.STOPPED

    async def _register_and_hold(self, kubelet: SocketId) -> bool:
        """One generation, from its socket to its end; returns whether it had a stream for long enough to be steady."""
        self.state = State.REGISTERING
        try:
            self.endpoint = endpoint = await self._listen()
        except EndpointError as error:
            self._retry(str(error))
            return False
        try:
            try:
                await self._kubelet.register(self.resource, endpoint.name, endpoint.options)
            except RegisterError as error:
                self._registered(error.result)
                # An answer that came too late for us, but kubelet took it: then there must be no second one (rule 29).
                if endpoint.stream.value is not Stream.LIVE:
                    self._retry(f"registration failed: {error}")
                    return False
            else:
                self._registered("ok")
            return await self._hold(endpoint, kubelet)
        finally:
            self.endpoint = None
            await endpoint.stop()

    async def _hold(self, endpoint: Endpoint, kubelet: SocketId) -> bool:
        """Watches a registration until it is broken; returns whether its stream was live long enough to be steady."""
        clock = asyncio.get_running_loop().time
        asked, live_since, gone_since, told = clock(), None, None, False
        with watching(endpoint.stream, self._kubelet.listing) as changed:
            while True:
                changed.clear()
                now, present = clock(), endpoint.socket_present()
                if endpoint.stream.value is Stream.LIVE and live_since is None:
                    live_since = now
                    self._connected(endpoint)
                overdue = now >= asked + STREAM_TIMEOUT
                reason = broken(endpoint.stream.value, kubelet, self._kubelet.listing.value, present, overdue)
                if reason:
                    steady = live_since is not None and now - live_since >= STEADY
                    self._lost_early = 0 if steady or live_since is None else self._lost_early + 1
                    if self._lost_early >= SUSPICIOUS:
                        reason += (
                            f" early, {self._lost_early} times in a row; does another plugin offer {self.resource}?"
                        )
                    self._retry(reason, again=live_since is not None)
                    return steady
                gone_since = None if present else (now if gone_since is None else gone_since)
                # A kubelet that starts removes the sockets just before it makes its own: not worth a word.
                if gone_since is not None and now >= gone_since + MISSED and not told:
                    told = True
                    self._log.warning(
                        "our socket's file was removed; kubelet is still connected, so nothing is lost yet",
                        socket=endpoint.name,
                    )
                due = [asked + STREAM_TIMEOUT] if live_since is None else []
                due += [gone_since + MISSED] if gone_since is not None and not told else []
                await happens(changed, within=max(0.0, min(due) - clock()) if due else None)

    async def _new_kubelet(self, known: SocketId | None, within: float) -> bool:
        """Waits, but not longer than until there is another kubelet.sock; returns whether there is."""
        clock = asyncio.get_running_loop().time
        until = clock() + within
        with watching(self._kubelet.listing) as changed:
            while True:
                changed.clear()
                if self._kubelet.listing.value.kubelet not in (None, known):
                    return True
                if not await happens(changed, within=until - clock()):
                    return False

    def _connected(self, endpoint: Endpoint) -> None:
        self.state = State.CONNECTED
        self.problem = ""
        self.registrations += 1
        self._told = -REPEAT
        self._log.info("registered with kubelet", socket=endpoint.name)

    def _wait_for_kubelet(self, kubelet: SocketId | None) -> None:
        self.state = State.WAITING
        if kubelet is None:
            self._tell("waiting for kubelet: there is no kubelet.sock in its device-plugins directory")
        else:
            self._tell("waiting for kubelet: nobody listens on kubelet.sock")

    def _retry(self, problem: str, again: bool = False) -> None:
        self.state = State.RETRYING
        if again:  # a resource that was there is lost: always worth a line
            self._told = -REPEAT
        self._tell(problem + "; registering again" if again else problem)

    def _tell(self, problem: str) -> None:
        """Logs a new problem at once, and one that lasts every now and then."""
        now = asyncio.get_running_loop().time()
        if problem != self.problem or now - self._told >= REPEAT:
            self._log.warning(problem)
            self._told = now
        self.problem = problem
