# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of sockets, and which leftovers may be removed."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from rdma_dp.logs import Log
from rdma_dp.sockets import SocketNames, SocketPathError, remove_leftovers

KUBELETS = Path("/var/lib/kubelet/device-plugins")


@pytest.mark.parametrize("resource", ["rdma/hca", "a/b", f"{'p.' * 120}p/{'n' * 63}"])
def test_names_fit_kubelets_directory_and_are_never_the_same(resource: str) -> None:
    names = SocketNames(KUBELETS)
    found = [names.fresh(resource) for _unused in range(1000)]
    assert len(set(found)) == 1000
    for name in found:
        assert len(f"{KUBELETS}/{name}") <= 107
        assert len(name) <= 75
        assert "/" not in name
        assert name.endswith(".sock")


def test_the_resource_can_be_read_from_an_ordinary_name() -> None:
    assert SocketNames(KUBELETS, process="0a1b2c").fresh("rdma/hca") == "rdma-dp-rdma_hca-0a1b2c-1.sock"


def test_long_resources_that_begin_alike_have_different_names() -> None:
    names = SocketNames(KUBELETS, process="0a1b2c")
    front = "p" * 100 + "/n"
    one, two = names.fresh(front + "1"), SocketNames(KUBELETS, process="0a1b2c").fresh(front + "2")
    assert one != two


def test_two_processes_have_different_names() -> None:
    assert SocketNames(KUBELETS).fresh("rdma/hca") != SocketNames(KUBELETS).fresh("rdma/hca")


@pytest.mark.parametrize(("length", "fits"), [(71, True), (72, False), (200, False)])
def test_directory_that_leaves_no_room_is_refused_at_once(length: int, fits: bool) -> None:
    directory = Path("/" + "d" * (length - 1))
    if fits:
        names = SocketNames(directory, generation=999_998)
        assert len(f"{directory}/{names.fresh('rdma/hca' * 20)}") <= 107
    else:
        with pytest.raises(SocketPathError, match="no room for a socket name"):
            SocketNames(directory)


def bound(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    return server


async def test_only_dead_sockets_of_our_kind_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path may have 107 bytes
    here = Path()
    dead, mine = "rdma-dp-rdma_hca-aaaaaa-1.sock", "rdma-dp-rdma_hca-bbbbbb-1.sock"
    foreign = ["kubelet.sock", "nvidia-gpu.sock", "rdma-dp-x.sock", "rdma-dp-rdma_hca-AAAAAA-1.sock"]
    for name in [dead, mine, *foreign]:
        bound(here / name).close()
    (here / "rdma-dp-rdma_hca-cccccc-1.sock").write_text("a file")
    (here / "rdma-dp-rdma_hca-dddddd-1.sock").symlink_to("kubelet.sock")
    with bound(here / "rdma-dp-rdma_hca-eeeeee-1.sock") as live:
        live.listen()
        await remove_leftovers(here, lambda name: "-bbbbbb-" in name, Log(), patience=0)
    assert sorted(path.name for path in here.iterdir()) == sorted(
        [mine, *foreign, *(f"rdma-dp-rdma_hca-{process}-1.sock" for process in ("cccccc", "dddddd", "eeeeee"))]
    )


async def test_a_socket_that_is_only_just_bound_is_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another plugin that starts now: bound, but not yet listening at the first look."""
    monkeypatch.chdir(tmp_path)
    here, name = Path(), "rdma-dp-rdma_hca-aaaaaa-1.sock"
    with bound(here / name) as starting:
        cleaning = asyncio.create_task(remove_leftovers(here, lambda _unused: False, Log(), patience=0.05))
        await asyncio.sleep(0)
        starting.listen()
        await cleaning
        assert (here / name).exists()
