# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over kubelet's directory, in a real directory with real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rdma_dp import kubelet_dir
from rdma_dp.kubelet_dir import Listing, accepts, look, watch
from rdma_dp.latest import Latest, happens, watching
from rdma_dp.logs import Log


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # a socket's path may have 107 bytes
    Path("dp").mkdir()
    return Path("dp")


def bind(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    return server


@asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[Latest[Listing]]:
    listing = Latest(Listing())
    task = asyncio.create_task(watch(directory, listing, Log()))
    await asyncio.sleep(0)
    try:
        yield listing
    finally:
        assert not task.done(), task.exception()
        task.cancel()


async def until(listing: Latest[Listing], condition: Callable[[Listing], bool], within: float) -> None:
    with watching(listing) as changed:
        while not condition(listing.value):
            changed.clear()
            assert await happens(changed, within), listing.value


def test_what_is_and_what_is_not_a_socket(directory: Path) -> None:
    (directory / "kubelet_internal_checkpoint").write_text("{}")
    (directory / "kubelet.sock").write_text("not a socket")
    assert look(directory) == Listing()
    (directory / "kubelet.sock").unlink()
    bind(directory / "kubelet.sock").close()
    bind(directory / "gpu.sock").close()
    found = look(directory)
    assert found.sockets == {"kubelet.sock", "gpu.sock"}
    assert found.kubelet is not None
    assert look(Path("nowhere")) == Listing(exists=False)


def test_a_new_socket_is_told_from_the_old_one_and_a_changed_mode_is_not(directory: Path) -> None:
    path = directory / "kubelet.sock"
    bind(path).close()
    first = look(directory).kubelet
    path.chmod(0o755)
    assert look(directory).kubelet == first
    path.unlink()
    bind(path).close()  # most file systems hand out the same inode again
    assert look(directory).kubelet != first


def test_whether_somebody_listens(directory: Path) -> None:
    path = directory / "kubelet.sock"
    assert not accepts(path)
    with bind(path) as server:
        assert not accepts(path)  # bound, not listening yet
        server.listen(1)
        assert accepts(path)
    assert not accepts(path)


async def test_a_new_socket_is_seen_at_once(directory: Path) -> None:
    async with watched(directory) as listing:
        await until(listing, lambda now: now.exists, within=1)
        bind(directory / "kubelet.sock").close()
        await until(listing, lambda now: now.kubelet is not None, within=0.5)
        (directory / "kubelet.sock").unlink()
        await until(listing, lambda now: now.kubelet is None, within=0.5)


async def test_a_directory_that_is_removed_and_made_anew_is_followed(directory: Path) -> None:
    async with watched(directory) as listing:
        await until(listing, lambda now: now.exists, within=1)
        directory.rmdir()
        await until(listing, lambda now: not now.exists, within=1)
        directory.mkdir()
        bind(directory / "kubelet.sock").close()
        await until(listing, lambda now: now.kubelet is not None, within=1)


async def test_without_inotify_it_polls(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_instance_left(path: Path) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(kubelet_dir, "Inotify", no_instance_left)
    async with watched(directory) as listing:
        bind(directory / "kubelet.sock").close()
        await until(listing, lambda now: now.kubelet is not None, within=1)
