# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated soft-RoCE machine against what was read from a real one (captures/rxe)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nics
from tests.nics import library

REAL = Path(library.__file__).parent / "captures" / "rxe"
# Read as EINVAL: what a plain file can't do. The tree has no such file instead.
EINVAL = "(EINVAL)"
needs_nodes = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes can be made by root only")


@pytest.fixture(scope="module")
def simulated() -> Iterator[nics.Simulated]:
    with nics.scratch() as place:
        yield nics.build("rxe", place / "machine")


def real_attributes(file: str) -> dict[str, str]:
    """Path below /sys to the text that was read there."""
    lines = (REAL / file).read_text().splitlines()
    pairs = (line.removeprefix("/sys/").partition("\t") for line in lines if line.startswith("/sys/"))
    return {path: text for path, _unused, text in pairs}


def read(simulated: nics.Simulated, path: str) -> str:
    try:
        return (simulated.sys / path).read_text().rstrip("\n")
    except FileNotFoundError:
        return EINVAL


@pytest.mark.parametrize("path", real_attributes("infiniband-rxe0.txt"))
def test_attributes_of_the_device_read_as_on_the_real_one(simulated: nics.Simulated, path: str) -> None:
    assert read(simulated, path) == real_attributes("infiniband-rxe0.txt")[path]


@pytest.mark.parametrize("file", ["infiniband_verbs.txt", "infiniband_mad.txt"])
def test_class_attributes_read_as_on_the_real_one(simulated: nics.Simulated, file: str) -> None:
    attributes = real_attributes(file)
    assert len(attributes) > 4
    for path, text in attributes.items():
        # The capture joins lines by semicolons; DEVMODE is the kernel's hint to devtmpfs.
        want = re.sub(r"DEVMODE=\w+;", "", text).rstrip(";").replace(";", "\n")
        assert read(simulated, path) == want, path


@pytest.mark.parametrize("file", ["infiniband_verbs.txt", "infiniband_mad.txt"])
def test_class_links_lead_where_the_real_ones_do(simulated: nics.Simulated, file: str) -> None:
    links = re.findall(r"(\w+) -> (\S+)$", (REAL / file).read_text(), re.MULTILINE)
    assert links
    for name, target in links:
        assert os.readlink(simulated.sys / "class" / file.removesuffix(".txt") / name) == target


def test_the_device_directory_holds_what_the_real_one_does(simulated: nics.Simulated) -> None:
    listed = re.findall(r"^# [-dl]\S+ .* (\w+)(?: -> \S+)?$", (REAL / "infiniband-rxe0.txt").read_text(), re.MULTILINE)
    assert len(listed) == 10
    assert sorted(os.listdir(simulated.sys / "class/infiniband/rxe0")) == sorted(listed)
    assert (
        os.path.realpath(simulated.sys / "class/infiniband/rxe0") == f"{simulated.sys}/devices/virtual/infiniband/rxe0"
    )


def test_the_port_directory_holds_what_the_real_one_does(simulated: nics.Simulated) -> None:
    *names, table_size = (REAL / "ports-1-ls.txt").read_text().split()
    port = simulated.sys / "class/infiniband/rxe0/ports/1"
    assert sorted(os.listdir(port)) == sorted(names)
    assert len(os.listdir(port / "gids")) == int(table_size)


@needs_nodes
def test_device_nodes_have_the_real_numbers_and_modes(simulated: nics.Simulated) -> None:
    rows = re.findall(
        r"^c(\S+)\s+1 root\s+root\s+(\d+),\s+(\d+) .* (\w+)$", (REAL / "dev.txt").read_text(), re.MULTILINE
    )
    assert len(rows) == 4
    for mode, major, minor, name in rows:
        status = os.stat(simulated.dev / "infiniband" / name)
        assert stat.filemode(status.st_mode) == "c" + mode
        assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (int(major), int(minor))


def test_port_down_reads_as_measured(simulated: nics.Simulated) -> None:
    """`ip link set down`: state 1: DOWN, phys_state 3: Disabled; GIDs and uverbs stay."""
    port = simulated.sys / "class/infiniband/rxe0/ports/1"
    gids = (port / "gids/1").read_text()
    simulated.set_port("rxe0", 1, "DOWN")
    assert [(port / name).read_text() for name in ("state", "phys_state")] == ["1: DOWN\n", "3: Disabled\n"]
    assert (port / "gids/1").read_text() == gids
    assert (simulated.sys / "class/infiniband_verbs/uverbs0").exists()
    simulated.set_port("rxe0", 1, "ACTIVE")
    assert [(port / name).read_text() for name in ("state", "phys_state")] == ["4: ACTIVE\n", "5: LinkUp\n"]


def test_a_removed_device_leaves_rdma_cm_and_comes_back_as_uverbs0(simulated: nics.Simulated) -> None:
    simulated.remove_nic("rxe0")
    for path in ("class/infiniband/rxe0", "class/infiniband_verbs/uverbs0", "class/infiniband_mad/umad0"):
        assert not os.path.lexists(simulated.sys / path)
    assert (simulated.sys / "class/misc/rdma_cm/dev").read_text() == "10:124\n"
    simulated.restore_nic("rxe0")
    assert (simulated.sys / "class/infiniband_verbs/uverbs0/ibdev").read_text() == "rxe0\n"
