# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet that knows nothing but device plugins: the registration service, and the client that it dials back with.

It follows KUBELET.md, whose rules its comments name, and can be told to misbehave. It also watches the plugin: a
registration while the last one's stream is still live is noted in ``violations`` (rule 29).
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import grpc
import grpc.aio

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.api import deviceplugin_v1beta1_pb2_grpc as pb_grpc

VERSION = "v1beta1"
DIAL_TIMEOUT = 10.0  # s, rule 12
QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")  # rule 17
OPTIONS = (
    ("grpc.default_authority", "localhost"),  # rule 13
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),  # rule 25
)


@dataclass
class Plugin:
    """One registration, as kubelet keeps it: the endpoint and the newest list."""

    resource: str
    endpoint: str
    announced: pb.DevicePluginOptions
    options: pb.DevicePluginOptions | None = None
    devices: dict[str, pb.Device] = field(default_factory=dict)
    messages: int = 0
    live: bool = False  # the stream is open
    stopped: bool = False  # the stream has ended: calls fail, all devices count as unhealthy (rule 26)
    registered_at: float = field(default_factory=time.monotonic)
    channel: grpc.aio.Channel | None = None
    watch: asyncio.Task[None] | None = None

    @property
    def stub(self) -> pb_grpc.DevicePluginStub:
        return pb_grpc.DevicePluginStub(self.channel)

    @property
    def healthy(self) -> list[str]:
        """IDs that pods may get: the ones that say exactly "Healthy" (rule 21), in the list's order."""
        if self.stopped:
            return []
        return [device.ID for device in self.devices.values() if device.health == "Healthy"]


class FakeKubelet(pb_grpc.RegistrationServicer):
    """Started and stopped as often as wanted; what is registered is lost each time, as in a real one."""

    def __init__(self, directory: Path, *, keyed_by_name: bool = False) -> None:
        """``keyed_by_name``: kubelets before PR #135437, whose clean-up of an old stream hits the new one (rule 29)."""
        self.directory = directory
        self.keyed_by_name = keyed_by_name
        self.plugins: dict[str, Plugin] = {}
        self.requests: list[pb.RegisterRequest] = []
        self.violations: list[str] = []
        self.refuse: str = ""  # answer Register with this error
        self.hang = False  # never answer Register
        self.open_streams = True  # False: register, but never call ListAndWatch
        self.dial_after_answer = False  # kubelets before 1.25
        self._server: grpc.aio.Server | None = None
        self._changed = asyncio.Event()

    # --- life ---------------------------------------------------------------------------------------------------------

    @property
    def socket(self) -> Path:
        return self.directory / "kubelet.sock"

    async def start(self, *, delete_sockets: bool = True) -> None:
        """Deletes all sockets of the directory, then listens (rule 5)."""
        if delete_sockets:
            for path in list(self.directory.iterdir()):
                with suppress(FileNotFoundError):  # a plugin may be taking its own away
                    if stat.S_ISSOCK(path.lstat().st_mode):
                        path.unlink()
        else:
            self.socket.unlink(missing_ok=True)
        self.plugins = {}
        self._server = grpc.aio.server()
        pb_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{quote(str(self.socket))}")
        await self._server.start()

    async def stop(self, *, leave_socket: bool = False) -> None:
        """Ends all connections. ``leave_socket``: as after SIGKILL, the file stays, with nobody behind it."""
        if self._server is None:
            return
        kept = self.directory / "kubelet.sock.kept"
        if leave_socket:
            os.link(self.socket, kept)
        for plugin in self.plugins.values():
            await self._drop(plugin)
        await self._server.stop(0)
        self._server = None
        if leave_socket:
            kept.rename(self.socket)

    async def drop_stream(self, resource: str) -> None:
        """Ends the connection to one plugin, for no reason that the plugin could see."""
        await self._drop(self.plugins[resource])

    async def _drop(self, plugin: Plugin) -> None:
        if plugin.watch is not None:
            plugin.watch.cancel()
        if plugin.channel is not None:
            await plugin.channel.close()

    # --- the registration service -------------------------------------------------------------------------------------

    async def Register(self, request: pb.RegisterRequest, context: grpc.aio.ServicerContext) -> pb.Empty:
        self.requests.append(request)
        known = self.plugins.get(request.resource_name)
        if known is not None and known.live:
            self.violations.append(f"{request.resource_name} registered again while its stream was live")
        if self.hang:
            await asyncio.sleep(3600)
        if self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        if request.version != VERSION:  # rule 10
            await context.abort(grpc.StatusCode.UNKNOWN, f"requested API version {request.version!r} is not supported")
        if not QUALIFIED.fullmatch(request.resource_name):
            await context.abort(grpc.StatusCode.UNKNOWN, f"the ResourceName {request.resource_name!r} is invalid")
        plugin = Plugin(request.resource_name, request.endpoint, request.options)
        if self.dial_after_answer:
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(self._connect(plugin)))
        else:
            await self._connect(plugin)  # rule 12: inside the call
        return pb.Empty()

    async def _connect(self, plugin: Plugin) -> None:
        path = self.directory / plugin.endpoint  # rule 3
        plugin.channel = grpc.aio.insecure_channel(f"unix:{quote(str(path))}", options=OPTIONS)
        async with asyncio.timeout(DIAL_TIMEOUT):
            await plugin.channel.channel_ready()
        plugin.options = await plugin.stub.GetDevicePluginOptions(pb.Empty())
        self.plugins[plugin.resource] = plugin
        if self.open_streams:
            plugin.watch = asyncio.create_task(self._list_and_watch(plugin))
        self._tell()

    async def _list_and_watch(self, plugin: Plugin) -> None:
        plugin.live = True
        try:
            async for message in plugin.stub.ListAndWatch(pb.Empty()):
                plugin.devices = {device.ID: device for device in message.devices}  # rules 19 and 22
                plugin.messages += 1
                self._tell()
        except grpc.aio.AioRpcError:
            pass  # an error and an ordinary end are the same: final (rule 26)
        finally:
            plugin.live = False
            plugin.stopped = True
            if self.keyed_by_name and plugin.resource in self.plugins:
                self.plugins[plugin.resource].stopped = True
            self._tell()

    # --- what a test asks ---------------------------------------------------------------------------------------------

    def healthy(self, resource: str) -> list[str]:
        """The IDs that count for ``allocatable``."""
        plugin = self.plugins.get(resource)
        return plugin.healthy if plugin else []

    def capacity(self, resource: str) -> int:
        """How many devices the plugin reports, whatever their health (rule 28)."""
        plugin = self.plugins.get(resource)
        return len(plugin.devices) if plugin else 0

    async def allocate(self, resource: str, *ids: str) -> pb.ContainerAllocateResponse:
        """One call for one container, as kubelet does (rule 30). Raises AioRpcError for a refusal."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self.plugins[resource].stub.Allocate(request)
        return answer.container_responses[0]

    async def until(self, condition: Callable[[], bool], within: float = 5.0, what: str = "") -> float:
        """Waits for something that a message or the end of a stream brings about; returns how long it took (s)."""
        started = time.monotonic()
        while not condition():
            self._changed.clear()
            left = started + within - time.monotonic()
            if left <= 0:
                raise AssertionError(f"not within {within:g} s: {what or 'the condition'}; {self}")
            try:
                # Not everything that a condition may look at comes through here.
                await asyncio.wait_for(self._changed.wait(), min(left, 0.02))
            except TimeoutError:
                continue
        return time.monotonic() - started

    async def until_offered(self, resource: str, count: int, within: float = 5.0) -> float:
        """Waits until ``count`` devices are healthy."""
        return await self.until(
            lambda: len(self.healthy(resource)) == count, within, f"{count} healthy devices of {resource}"
        )

    def __str__(self) -> str:
        found = {name: f"{len(plugin.healthy)}/{len(plugin.devices)}" for name, plugin in self.plugins.items()}
        return f"kubelet has {found or 'no plugin'} after {len(self.requests)} registrations"

    def _tell(self) -> None:
        self._changed.set()


@asynccontextmanager
async def running(kubelet: FakeKubelet) -> AsyncIterator[FakeKubelet]:
    """Stops it at the end, and fails for what the plugin did wrong meanwhile."""
    try:
        yield kubelet
    finally:
        await kubelet.stop()
    assert not kubelet.violations


def leave_dead_socket(path: Path) -> None:
    """A socket file with nobody behind it, as a killed process leaves it."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
