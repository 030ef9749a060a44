# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One generation of one resource: the DevicePlugin service on a socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio

from rdma_dp import messages
from rdma_dp.allocate import Grant, RefusedError
from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.api import deviceplugin_v1beta1_pb2_grpc as pb_grpc
from rdma_dp.core.model import Device, Picture
from rdma_dp.latest import Latest, watching
from rdma_dp.logs import Log
from rdma_dp.session import EndpointError, Stream
from rdma_dp.unix_grpc import because, channel, target

_SELF_CHECK = 2.0  # s
_STOP = 0.5  # s for calls that are being answered

_SERVER_OPTIONS = (
    ("grpc.so_reuseport", 0),
    # Kubelet's largest question names some thousand IDs; nobody may make us hold more.
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
)


class Allocator(Protocol):
    """Answers Allocate; see allocator.py."""

    def allocate(self, resource: str, requests: Sequence[Sequence[str]]) -> Awaitable[list[Grant]]:
        """One grant per container, in order. Raises RefusedError."""


class Endpoint:
    """Serves until it is stopped. ``stream`` tells what has become of kubelet's ListAndWatch."""

    def __init__(
        self, resource: str, path: Path, pictures: Latest[Picture], allocator: Allocator, *, host_dev: Path, log: Log
    ) -> None:
        self.name = path.name
        self.options = messages.options()
        self.stream: Latest[Stream] = Latest(Stream.NONE)
        self._path = path
        self._closing: Latest[bool] = Latest(False)
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        service = _Service(resource, pictures, self.stream, self._closing, allocator, host_dev, log)
        pb_grpc.add_DevicePluginServicer_to_server(service, self._server)

    async def start(self) -> None:
        """Listens, and asks itself a question over the socket. Raises EndpointError; then nothing is left of it."""
        # The socket must never be open to others, not even for a moment; bind has no mode argument. Nothing else of the
        # process makes files while this runs.
        mask = os.umask(0o177)
        try:
            self._server.add_insecure_port(target(self._path))
        except (RuntimeError, OSError) as error:
            raise EndpointError(self._cannot_listen(error)) from error
        finally:
            os.umask(mask)
        try:
            await self._server.start()
            await self.check()
        except BaseException:
            await self.stop()
            raise

    async def check(self) -> None:
        """Calls its own service through the socket file, as kubelet does. Raises EndpointError when it fails."""
        async with channel(self._path) as connection:
            try:
                await pb_grpc.DevicePluginStub(connection).GetDevicePluginOptions(pb.Empty(), timeout=_SELF_CHECK)
            except grpc.aio.AioRpcError as error:
                raise EndpointError(f"our own socket {self._path} does not answer ({because(error)})") from error

    def socket_present(self) -> bool:
        """Whether the socket's file is there."""
        return os.path.lexists(self._path)

    async def stop(self) -> None:
        """Ends streams and server, and makes sure that the socket's file is gone."""
        self._closing.publish(True)
        stopping = asyncio.ensure_future(self._server.stop(_STOP))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            await stopping  # the plugin ends just now: still, no server may outlive this call
            raise
        finally:
            # gRPC has done so, but not when its start failed halfway.
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _cannot_listen(self, error: Exception) -> str:
        directory = self._path.parent
        if not os.path.isdir(directory):
            why = "the directory does not exist; is kubelet's device-plugins directory mounted there?"
        elif not os.access(directory, os.W_OK | os.X_OK):
            why = (
                f"no permission to write to it as UID {os.geteuid()}; the plugin needs the directory's owner, usually 0"
            )
        else:
            why = " ".join(str(error).split())
        return f"cannot listen on a socket in {directory}: {why}"


class _Service(pb_grpc.DevicePluginServicer):
    """The five calls of the API."""

    def __init__(
        self,
        resource: str,
        pictures: Latest[Picture],
        stream: Latest[Stream],
        closing: Latest[bool],
        allocator: Allocator,
        host_dev: Path,
        log: Log,
    ) -> None:
        self._resource = resource
        self._pictures = pictures
        self._stream = stream
        self._closing = closing
        self._allocator = allocator
        self._host_dev = host_dev
        self._log = log.bind(resource=resource)

    async def GetDevicePluginOptions(
        self, request: pb.Empty, context: grpc.aio.ServicerContext
    ) -> pb.DevicePluginOptions:
        """See messages.options."""
        return messages.options()

    async def ListAndWatch(self, request: pb.Empty, context: grpc.aio.ServicerContext) -> None:
        """The list at once, then again whenever it differs, until kubelet or we end it.

        Not an async generator: one that is cancelled at its yield runs its clean-up when it is garbage collected, but
        the session must learn of the end at once.
        """
        # Kubelet opens one stream per registration. A second one is somebody who looks; its end means nothing.
        kubelets = self._stream.value is Stream.NONE
        if kubelets:
            self._stream.publish(Stream.LIVE)
        try:
            known: tuple[Device, ...] | None = None
            sent: pb.ListAndWatchResponse | None = None
            with watching(self._pictures, self._closing) as changed:
                while not self._closing.value:
                    changed.clear()
                    devices = self._devices()
                    # Two comparisons: what Allocate opens for a device may change without a change for kubelet, which
                    # writes its checkpoint to disk for each message (rule 27).
                    if devices is not known:
                        known, message = devices, messages.device_list(devices)
                        if message != sent:
                            await context.write(message)
                            sent = message
                    await changed.wait()
        finally:
            if kubelets:
                self._stream.publish(Stream.ENDED)

    async def Allocate(self, request: pb.AllocateRequest, context: grpc.aio.ServicerContext) -> pb.AllocateResponse:
        """Answers each container request in order, or refuses the whole call with a sentence."""
        try:
            asked = [list(container.devices_ids) for container in request.container_requests]
            grants = await self._allocator.allocate(self._resource, asked)
        except RefusedError as error:
            await context.abort(grpc.StatusCode[error.refusal.value], str(error))
        answers = [messages.container_answer(grant, self._host_dev) for grant in grants]
        return pb.AllocateResponse(container_responses=answers)

    async def GetPreferredAllocation(
        self, request: pb.PreferredAllocationRequest, context: grpc.aio.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        """No preference: an empty answer per container. Never an error, it would end the pod's admission (rule 33)."""
        empty = [pb.ContainerPreferredAllocationResponse() for _unused in request.container_requests]
        return pb.PreferredAllocationResponse(container_responses=empty)

    async def PreStartContainer(
        self, request: pb.PreStartContainerRequest, context: grpc.aio.ServicerContext
    ) -> pb.PreStartContainerResponse:
        """Nothing to do; kubelet does not call it, since the options say so."""
        return pb.PreStartContainerResponse()

    def _devices(self) -> tuple[Device, ...]:
        for pool in self._pictures.value.pools:
            if pool.config.resource == self._resource:
                return pool.devices
        return ()  # removed from the config: this endpoint is about to be stopped
