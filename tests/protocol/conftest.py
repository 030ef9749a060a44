# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the protocol tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest_asyncio

from tests import nics
from tests.protocol.fake_kubelet import FakeKubelet, running
from tests.protocol.node import SHARED, Node

# Nothing here depends on the size of the GID tables, and writing 256 rows for each of eight ports takes seconds.
_FULL = nics.machine("b300")
_B300 = replace(
    _FULL,
    rdma_devices=tuple(
        replace(device, ports=tuple(replace(port, table_size=16) for port in device.ports))
        for device in _FULL.rdma_devices
    ),
)


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Node]:
    """A node with eight simulated bonds and one shared pool; the plugin is not started."""
    # Not pytest's tmp_path: a socket's path may have 107 bytes. In memory where possible: thousands of small files.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="dp-", dir=memory))
    node = Node(root, nics.build(_B300, root, openable=False))
    node.write_config(SHARED)
    try:
        yield node
    finally:
        await node.kill()
        print("--- the plugin's log", *node.lines(), sep="\n")  # pytest shows it for a test that failed
        shutil.rmtree(root)


@pytest_asyncio.fixture
async def kubelet(node: Node) -> AsyncIterator[FakeKubelet]:
    """A kubelet that runs. At the end it tells whether the plugin broke a rule."""
    async with running(FakeKubelet(node.kubelet_dir)) as kubelet:
        await kubelet.start()
        yield kubelet
