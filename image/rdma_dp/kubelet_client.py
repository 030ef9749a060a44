# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plugin says to kubelet: Register on kubelet.sock."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio

from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.api import deviceplugin_v1beta1_pb2_grpc as pb_grpc
from rdma_dp.kubelet_dir import KUBELET_SOCKET, Listing, accepts, look
from rdma_dp.latest import Latest
from rdma_dp.unix_grpc import because, channel

API_VERSION = "v1beta1"
REGISTER_TIMEOUT = 10.0  # s: as long as kubelet itself takes at most to dial back (rule 12)


class RegisterError(Exception):
    """Kubelet did not take the registration; the text says why. ``result`` is the metric's label."""

    def __init__(self, result: str, message: str) -> None:
        super().__init__(message)
        self.result = result


class Kubelet:
    """Kubelet as a session sees it: what its directory holds, whether it listens, and Register."""

    def __init__(self, directory: Path, listing: Latest[Listing]) -> None:
        self.listing = listing
        self._directory = directory
        self._path = directory / KUBELET_SOCKET

    def look(self) -> Listing:
        """What the directory holds at this moment; the others learn it too."""
        self.listing.publish(look(self._directory))
        return self.listing.value

    def listens(self) -> bool:
        """Whether somebody accepts connections on kubelet.sock at this moment."""
        return accepts(self._path)

    async def register(self, resource: str, endpoint: str, options: pb.DevicePluginOptions) -> None:
        """Registers the socket named ``endpoint`` for the resource. Raises RegisterError."""
        request = pb.RegisterRequest(version=API_VERSION, endpoint=endpoint, resource_name=resource, options=options)
        async with channel(self._path) as connection:
            try:
                await pb_grpc.RegistrationStub(connection).Register(request, timeout=REGISTER_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                raise _explained(error) from error


def _explained(error: grpc.aio.AioRpcError) -> RegisterError:
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return RegisterError("timeout", f"kubelet did not answer within {REGISTER_TIMEOUT:g} s")
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return RegisterError("unavailable", f"kubelet.sock does not answer ({because(error)})")
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        return RegisterError("refused", "what listens on kubelet.sock is not kubelet's registration service")
    # Kubelet's Go errors arrive as UNKNOWN with its text: a bad name or version, or a dial back that failed.
    return RegisterError("refused", f"kubelet refused it ({because(error)})")
