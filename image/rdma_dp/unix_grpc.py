# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gRPC over unix sockets, as this API needs it: targets, channel options, and errors as sentences."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import grpc
import grpc.aio

CHANNEL_OPTIONS = (
    # Since 1.57 the authority of a unix channel is its percent-encoded path, which strict servers refuse (rule 13).
    ("grpc.default_authority", "localhost"),
    # Each channel connects anew: with the shared pool a socket that just refused is not tried again for a second.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)


def target(path: Path) -> str:
    """The gRPC name of the socket; gRPC decodes percent signs, so the path is quoted."""
    return "unix:" + quote(os.fspath(path), safe="/")


def channel(path: Path) -> grpc.aio.Channel:
    """A channel to the socket; connects when it is first used."""
    return grpc.aio.insecure_channel(target(path), options=CHANNEL_OPTIONS)


def because(error: grpc.aio.AioRpcError) -> str:
    """What the other side or the transport said, on one line."""
    details = " ".join((error.details() or "").split())
    return f"{error.code().name}: {details}" if details else str(error.code().name)
