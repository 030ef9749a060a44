# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scan while files vanish, lie, or can't be read; and how long it takes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rdma_dp.core import discovery
from rdma_dp.core.model import CHAR_DEVICE_KINDS, Snapshot
from rdma_dp.machine import machine
from rdma_dp.options import ServeOptions
from tests import nics
from tests.nics import describe

CHECKOUT = Path(__file__).resolve().parents[3]
OLDEST_PYTHON = Path.home() / ".pyenv/versions/3.8.18/bin/python"
PORT = "class/infiniband/mlx5_0/ports/1"
needs_nodes = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes can be made by root only")


def small_machine() -> nics.Machine:
    """One of each kind, with small GID tables."""
    card = {"pci_address": "0000:17:00.0", "numa_node": 1, "gid_table": 4}
    return describe.machine(
        "small",
        {
            "nics": [
                {**card, "rdma_device": "mlx5_0", "netdevs": ["eth1"], "bond": "bond0"},
                {**card, "rdma_device": "mlx5_1", "pci_address": "0000:17:00.2", "physfn": "0000:17:00.0"},
                {**card, "rdma_device": "mlx5_2", "aux_device": "mlx5_core.sf.2", "sf_number": 5, "netdevs": ["sf5"]},
                {**card, "rdma_device": "mlx5_bond_0", "pci_address": "0001:18:00.0"},
                {"rdma_device": "rxe0", "driver": "rdma_rxe", "gid_table": 4},
            ]
        },
    )


@pytest.fixture
def simulated() -> Iterator[nics.Simulated]:
    with nics.scratch() as place:
        yield nics.build(small_machine(), place / "machine")


def scan(simulated: nics.Simulated) -> Snapshot:
    return discovery.scan(simulated.sys, simulated.dev)


# --- single attributes ----------------------------------------------------------------------------------------------


def make_absent(path: Path) -> None:
    path.unlink()


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_unreadable(path: Path) -> None:
    """Reading /proc/self/mem at address 0 answers EIO."""
    path.unlink()
    path.symlink_to("/proc/self/mem")


FAULTS: dict[str, Callable[[Path], object]] = {
    "absent": make_absent,
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe\xfd\n"),
    "huge": lambda path: path.write_bytes(b"x" * 1_000_000),
    "a directory": make_directory,
    "EIO": make_unreadable,
}


@needs_nodes
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("attribute", ["state", "phys_state", "link_layer"])
def test_an_attribute_that_can_t_be_read_is_unknown_and_the_rest_is_there(
    simulated: nics.Simulated, attribute: str, fault: str
) -> None:
    before = next(nic for nic in scan(simulated).nics if nic.rdma_device == "mlx5_0")
    FAULTS[fault](simulated.sys / PORT / attribute)
    after = next(nic for nic in scan(simulated).nics if nic.rdma_device == "mlx5_0")
    assert getattr(after.ports[0], attribute) == ""
    assert (after.id, after.usable, after.netdevs) == (before.id, True, before.netdevs)
    assert [gid.gid for gid in after.ports[0].gids] == [gid.gid for gid in before.ports[0].gids]


@needs_nodes
@pytest.mark.parametrize("fault", FAULTS)
def test_a_gid_that_can_t_be_read_is_left_out(simulated: nics.Simulated, fault: str) -> None:
    FAULTS[fault](simulated.sys / PORT / "gids/1")
    nic = next(nic for nic in scan(simulated).nics if nic.rdma_device == "mlx5_0")
    assert [gid.index for gid in nic.ports[0].gids] == [0, 2, 3]


@needs_nodes
@pytest.mark.parametrize("fault", FAULTS)
def test_pci_attributes_that_can_t_be_read_leave_the_id_and_the_bridges_numa_node(
    simulated: nics.Simulated, fault: str
) -> None:
    for attribute in ("vendor", "device", "numa_node"):
        FAULTS[fault](simulated.sys / "class/infiniband/mlx5_bond_0/device" / attribute)
    (simulated.sys / "class/infiniband/mlx5_bond_0/device/driver").unlink()
    nic = next(nic for nic in scan(simulated).nics if nic.rdma_device == "mlx5_bond_0")
    assert (nic.id, nic.vendor, nic.device_id, nic.driver, nic.numa_node) == ("0001:18:00.0", "", "", "", 1)
    assert nic.usable


@needs_nodes
def test_gids_are_found_in_any_slot_of_a_sparse_table(simulated: nics.Simulated) -> None:
    """Empty rows end nothing; rows whose attributes answer an error are found without them."""
    port = simulated.sys / PORT
    for index in range(4, 256):
        (port / "gids" / str(index)).write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    for index in range(4):
        (port / "gids" / str(index)).write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    for index in (12, 100, 255):
        (port / "gids" / str(index)).write_text("fd00:0000:0000:0000:0000:0000:0000:0001\n")
    nic = next(nic for nic in scan(simulated).nics if nic.rdma_device == "mlx5_0")
    assert [(gid.index, gid.type, gid.netdev) for gid in nic.ports[0].gids] == [
        (12, "", ""),
        (100, "", ""),
        (255, "", ""),
    ]


@needs_nodes
def test_while_a_driver_goes_the_id_stays(simulated: nics.Simulated) -> None:
    (simulated.sys / "class/infiniband/mlx5_0/device").unlink()
    assert [nic.id for nic in scan(simulated).nics if nic.rdma_device == "mlx5_0"] == ["0000:17:00.0"]


@needs_nodes
def test_an_rdma_device_named_like_an_address_gets_no_id_twice(simulated: nics.Simulated) -> None:
    link = simulated.sys / "class/infiniband/rxe0"
    link.rename(link.with_name("0000:17:00.0"))
    snapshot = scan(simulated)
    assert len({nic.id for nic in snapshot.nics}) == len(snapshot.nics) == 5


# --- while it is read -----------------------------------------------------------------------------------------------


@needs_nodes
@pytest.mark.parametrize("after", range(0, 120, 8))
def test_a_nic_that_leaves_in_the_middle_of_a_scan(
    simulated: nics.Simulated, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The scan gives each other NIC whole, and the leaving one whole, in part or not at all, but under its own id."""
    before = {nic.rdma_device: nic for nic in scan(simulated).nics}
    opened, real_open = 0, os.open

    def open_and_count(*arguments: object, **options: object) -> int:
        nonlocal opened
        opened += 1
        if opened == after + 1:
            monkeypatch.undo()
            simulated.remove_nic("mlx5_bond_0")
        return real_open(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_and_count)
    found = {nic.rdma_device: nic for nic in scan(simulated).nics}
    assert opened > after
    leaving = found.pop("mlx5_bond_0", None)
    assert leaving is None or leaving.id == "0001:18:00.0"
    assert found == {name: nic for name, nic in before.items() if name != "mlx5_bond_0"}


@needs_nodes
def test_a_scan_beside_changes_sees_only_states_that_a_kernel_has(simulated: nics.Simulated) -> None:
    """A usable NIC is complete; one that is not has a reason; a port has one of its two states."""
    stop, wrong = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            for nic in scan(simulated).nics:
                states = {port.state for port in nic.ports}
                complete = bool(nic.char_devices) and states <= {"ACTIVE", "DOWN"} and states != set()
                if nic.usable and not complete:
                    wrong.append(nic)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _unused in range(4):
            simulated.set_port("mlx5_bond_0", 1, "DOWN")
            simulated.set_port("mlx5_bond_0", 1, "ACTIVE")
            simulated.remove_nic("rxe0")
            simulated.restore_nic("rxe0")
    finally:
        stop.set()
        reader.join()
    assert wrong == []


# --- any tree -------------------------------------------------------------------------------------------------------

GARBAGE = (
    b"",
    b"\n",
    b"-1\n",
    b"999999999999999999999\n",
    b"0x\n",
    b"\xff\xfe",
    b"4: ACTIVE\n",
    b"../../x",
    b"y" * 70_000,
)


def mutate(root: Path, chance: random.Random) -> None:
    """One random thing that no kernel does, or does at a bad moment."""
    # Not the trees' upper directories: with those gone little is left to find.
    deep = sorted(path for path in root.rglob("*") if len(path.relative_to(root).parts) > 2)
    if not deep:
        return
    path = chance.choice(deep)
    plain_file = path.is_file() and not path.is_symlink()
    kind = chance.choice(("remove", "garbage", "directory", "fifo", "loop", "elsewhere", "rename"))
    if kind == "rename":
        path.rename(path.with_name(chance.choice(("x", "uverbs9", "mlx5_9", "-1", "99999999999", "\udcff\udcfe"))))
        return
    if kind == "garbage" and plain_file:
        path.write_bytes(chance.choice(GARBAGE))
        return
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "elsewhere":
        path.symlink_to(chance.choice(("/proc/self/mem", "/", "/nowhere", str(root), "..")))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 40))
def test_any_damage_to_the_tree_gives_the_same_valid_snapshot_twice(seed: int, changes: int) -> None:
    with nics.scratch() as place:
        simulated = nics.build(small_machine(), place / "machine")
        chance = random.Random(seed)
        for _unused in range(changes):
            try:
                mutate(place / "machine", chance)
            except OSError:
                continue  # an earlier change is in the way
        snapshot = scan(simulated)
        assert snapshot == scan(simulated)
    check(snapshot)


def check(snapshot: Snapshot) -> None:
    """What holds of every snapshot, by model.py."""
    ids = [nic.id for nic in snapshot.nics]
    assert sorted(set(ids)) == ids
    for nic in snapshot.nics:
        assert nic.id
        assert nic.numa_node is None or nic.numa_node >= 0
        assert nic.function in ("", "pf", "vf", "sf")
        assert nic.usable == any(device.kind == "uverbs" and device.present for device in nic.char_devices)
        assert all(device.kind in CHAR_DEVICE_KINDS for device in nic.char_devices)
        for port in nic.ports:
            assert port.link_layer in ("", "ether", "infiniband")
            assert all(gid.type in ("", "RoCE v1", "RoCE v2", "IB") for gid in port.gids)
        repr(nic).encode()  # no half characters: all of it can be sent and printed


# --- time, and where it runs ----------------------------------------------------------------------------------------


def serve_options(simulated: nics.Simulated) -> ServeOptions:
    return ServeOptions(
        config=Path("unread"),
        kubelet_dir=Path("unread"),
        sysfs=simulated.sys,
        dev=simulated.dev,
        host_dev=simulated.dev,
        pod_resources=None,
        cdi_dir=None,
        listen=None,
        log_format="text",
        log_level="info",
    )


def test_the_plugins_scan_of_16_nics_with_256_gids_each_takes_less_than_20_ms() -> None:
    rows = [{"index": index, "gid": f"fd00:0000:0000:0000:0000:0000:0000:{index:04x}"} for index in range(256)]
    cards = [
        {
            "rdma_device": f"mlx5_bond_{number}",
            "pci_address": f"0000:{0x11 + number:02x}:00.0",
            "ports": [{"port": 1, "gids": rows}],
        }
        for number in range(16)
    ]
    with nics.scratch() as place:
        simulated = nics.build(describe.machine("big", {"nics": cards}), place / "machine")
        assert [len(nic.ports[0].gids) for nic in scan(simulated).nics] == [256] * 16
        plugin = machine(serve_options(simulated))
        # Other work on the machine only adds, so that one quiet moment is enough to tell.
        best, end = 1.0, time.monotonic() + 20
        while best >= 0.020 and time.monotonic() < end:
            start = time.perf_counter()
            snapshot = plugin.scan()
            best = min(best, time.perf_counter() - start)
    assert len(snapshot.nics) == 16
    assert best < 0.020


@needs_nodes
@pytest.mark.skipif(not OLDEST_PYTHON.exists(), reason="no Python 3.8 on this machine")
def test_python_3_8_finds_the_same(simulated: nics.Simulated) -> None:
    program = "import sys; from rdma_dp.core import discovery; print(discovery.scan(sys.argv[1], sys.argv[2]))"
    found = subprocess.run(
        [OLDEST_PYTHON, "-c", program, simulated.sys, simulated.dev],
        cwd=CHECKOUT / "image",
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(scan(simulated))
    assert sys.version_info > (3, 8)
