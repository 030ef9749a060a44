# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generator itself: trees that can be moved, changes that leave nothing, machines that can be opened again."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nics
from tests.nics import __main__ as command_line
from tests.nics import addresses, gids, library

MACHINES = [path.stem for path in sorted((Path(library.__file__).parent / "machines").glob("*.yml"))]
WANTED = {
    "h20",
    "b300",
    "cx7",
    "infiniband",
    "dual-port",
    "vfs",
    "erdma",
    "irdma",
    "rxe",
    "efa",
    "ipv4",
    "none",
    "no-driver",
}
needs_nodes = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes can be made by root only")


@pytest.fixture
def place() -> Iterator[Path]:
    with nics.scratch() as directory:
        yield directory


def contents(root: Path) -> dict[str, str]:
    """Every path below sys and dev with what is there."""
    found = {}
    for path in [*(root / "sys").rglob("*"), *(root / "dev").rglob("*")]:
        if path.is_symlink():
            what = f"-> {os.readlink(path)}"
        elif path.is_dir():
            what = "directory"
        elif path.is_char_device():
            what = f"node {path.stat().st_rdev}"
        else:
            what = path.read_text()
        found[str(path.relative_to(root))] = what
    return found


def test_the_machines_that_others_count_on_are_there() -> None:
    assert set(MACHINES) >= WANTED
    assert {device.name for device in nics.machine("h20").rdma_devices} == {
        f"mlx5_bond_{number}" for number in range(4)
    }


@pytest.mark.parametrize("name", MACHINES)
def test_every_link_is_relative_and_leads_somewhere_in_the_tree(place: Path, name: str) -> None:
    simulated = nics.build(name, place / "machine")
    links = [path for path in simulated.root.rglob("*") if path.is_symlink()]
    for link in links:
        assert not os.readlink(link).startswith("/")
        inside = os.path.realpath(link).startswith(os.path.realpath(simulated.sys) + "/")
        assert inside, link
    # Drivers' and buses' own directories are not written, all devices are.
    dangling = [link for link in links if not link.exists() and link.name not in ("driver", "subsystem")]
    assert dangling == []


def test_a_machine_can_be_moved(place: Path) -> None:
    nics.build("h20", place / "here").root.rename(place / "there")
    assert (
        place / "there/sys/class/infiniband/mlx5_bond_2/device/net/reth4/master/bonding/slaves"
    ).read_text() == "reth4 reth5\n"


def test_the_second_function_of_a_lag_card_has_a_netdev_and_no_rdma_device(place: Path) -> None:
    devices = nics.build("h20", place / "machine").sys / "bus/pci/devices"
    assert os.listdir(devices / "0000:7f:00.0/infiniband") == ["mlx5_bond_0"]
    assert not (devices / "0000:7f:00.1/infiniband").exists()
    assert os.listdir(devices / "0000:7f:00.1/net") == ["reth1"]
    assert os.path.basename(os.readlink(devices / "0000:7f:00.1/driver")) == "mlx5_core"


def test_a_bonds_speed_is_the_sum_over_its_members(place: Path) -> None:
    net = nics.build("h20", place / "machine").sys / "class/net"
    assert int((net / "bond0/speed").read_text()) == 2 * int((net / "reth0/speed").read_text())


def test_virtual_functions_are_linked_both_ways(place: Path) -> None:
    devices = nics.build("vfs", place / "machine").sys / "bus/pci/devices"
    assert os.path.realpath(devices / "0000:c4:00.0/virtfn2") == os.path.realpath(devices / "0000:c4:01.0")
    assert os.path.realpath(devices / "0000:c4:01.0/physfn") == os.path.realpath(devices / "0000:c4:00.0")
    assert (devices / "0000:c4:00.0/sriov_numvfs").read_text() == "3\n"


@needs_nodes
def test_openable_nodes_are_other_names_of_null_and_sysfs_agrees(place: Path) -> None:
    simulated = nics.build("cx7", place / "machine", openable=True)
    node = simulated.dev / "infiniband/uverbs0"
    assert stat.S_ISCHR(node.stat().st_mode)
    assert (simulated.sys / "class/infiniband_verbs/uverbs0/dev").read_text() == "1:3\n"
    assert (simulated.sys / "class/misc/rdma_cm/dev").read_text() == "1:3\n"
    with node.open("rb") as opened:
        assert opened.read() == b""


@needs_nodes
def test_removing_and_restoring_every_nic_gives_the_same_tree(place: Path) -> None:
    simulated = nics.build("dual-port", place / "machine")
    before = contents(simulated.root)
    for device in simulated.machine.rdma_devices:
        simulated.remove_nic(device.name)
    assert "sys/class/infiniband/mlx4_0" not in contents(simulated.root)
    for device in simulated.machine.rdma_devices:
        simulated.restore_nic(device.name)
    assert contents(simulated.root) == before


def test_with_a_lag_nic_both_functions_go_and_the_others_stay(place: Path) -> None:
    simulated = nics.build("h20", place / "machine")
    simulated.remove_nic("mlx5_bond_0")
    devices = os.listdir(simulated.sys / "bus/pci/devices")
    assert not {"0000:7f:00.0", "0000:7f:00.1"} & set(devices)
    assert {"0000:c7:00.0", "0000:c7:00.1"} <= set(devices)
    assert not os.path.lexists(simulated.sys / "class/net/reth1")
    assert (simulated.sys / "class/infiniband_verbs/uverbs1/ibdev").read_text() == "mlx5_bond_1\n"


def test_a_restored_nic_gets_the_lowest_free_numbers(place: Path) -> None:
    simulated = nics.build("cx7", place / "machine")
    for name in ("mlx5_1", "mlx5_3"):
        simulated.remove_nic(name)
    simulated.restore_nic("mlx5_3")
    assert (simulated.sys / "class/infiniband_verbs/uverbs1/ibdev").read_text() == "mlx5_3\n"
    simulated.restore_nic("mlx5_1")
    assert (simulated.sys / "class/infiniband_verbs/uverbs3/ibdev").read_text() == "mlx5_1\n"


@needs_nodes
def test_a_machine_opened_again_goes_on_where_it_was(place: Path) -> None:
    first = nics.build("cx7", place / "machine", openable=True)
    first.remove_nic("mlx5_0")
    first.set_port("mlx5_1", 1, "DOWN")
    first.reload_driver()
    as_it_was = contents(first.root)
    second = nics.load(place / "machine")
    assert second.machine == first.machine
    second.set_port("mlx5_1", 1, "DOWN")  # what it is already
    assert contents(second.root) == as_it_was
    second.restore_nic("mlx5_0")
    second.set_port("mlx5_1", 1, "ACTIVE")
    assert (second.sys / "class/infiniband/mlx5_1/ports/1/state").read_text() == "4: ACTIVE\n"
    assert (second.sys / "class/infiniband_verbs/uverbs3/ibdev").read_text() == "mlx5_0\n"


def test_a_down_port_takes_its_netdev_down(place: Path) -> None:
    simulated = nics.build("cx7", place / "machine")
    simulated.set_port("mlx5_0", 1, "DOWN")
    assert (simulated.sys / "class/net/enp23s0np0/operstate").read_text() == "down\n"
    assert (simulated.sys / "class/net/enp61s0np0/operstate").read_text() == "up\n"


def test_a_file_that_changes_is_replaced_not_written_into(place: Path) -> None:
    simulated = nics.build("cx7", place / "machine")
    with (simulated.sys / "class/infiniband/mlx5_0/ports/1/state").open() as opened:
        simulated.set_port("mlx5_0", 1, "DOWN")
        assert opened.read() == "4: ACTIVE\n"


def test_names_that_do_not_exist_are_refused(place: Path) -> None:
    simulated = nics.build("cx7", place / "machine")
    with pytest.raises(KeyError, match="mlx5_9"):
        simulated.remove_nic("mlx5_9")
    with pytest.raises(KeyError, match="no port 2"):
        simulated.set_port("mlx5_0", 2, "DOWN")
    with pytest.raises(ValueError, match="ACTIVE, ARMED, DOWN, INIT"):
        simulated.set_port("mlx5_0", 1, "UP")
    with pytest.raises(ValueError, match="b300"):
        nics.machine("b3000")
    with pytest.raises(FileExistsError, match="not empty"):
        nics.build("cx7", place / "machine")


def test_a_machine_changed_in_memory_can_be_built(place: Path) -> None:
    machine = nics.machine("rxe")
    changed = dataclasses.replace(machine, rdma_devices=(dataclasses.replace(machine.rdma_devices[0], name="rxe_lab"),))
    assert os.listdir(nics.build(changed, place / "machine").sys / "class/infiniband") == ["rxe_lab"]


def test_a_description_from_a_file_anywhere(place: Path) -> None:
    (place / "mine.yml").write_text("nics: [{rdma_device: mlx5_0}]\n")
    assert [device.name for device in nics.machine(place / "mine.yml").rdma_devices] == ["mlx5_0"]
    (place / "node.yml").write_text("capacity: {}\n")
    with pytest.raises(ValueError, match="describes no machine"):
        nics.machine(place / "node.yml")


def test_the_command_line_builds_and_changes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(place / "machine")
    assert command_line.main(["list"]) == 0
    assert "mlx5_bond_7" in capsys.readouterr().out
    assert command_line.main(["build", "cx7", root]) == 0
    assert command_line.main(["set-port", root, "mlx5_0", "1", "DOWN"]) == 0
    assert (place / "machine/sys/class/infiniband/mlx5_0/ports/1/state").read_text() == "1: DOWN\n"
    assert command_line.main(["remove-nic", root, "mlx5_9"]) == 2
    assert "has no RDMA device 'mlx5_9'" in capsys.readouterr().err
    shutil.rmtree(root)
    assert command_line.main(["reload-driver", root]) == 2


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ibp26s0", "0000:1a:00.0"),
        ("enp157s0f1np1", "0000:9d:00.1"),
        ("rdmap115s0", "0000:73:00.0"),
        ("rocep189s0f0", "0000:bd:00.0"),
        ("ibp141s0v0", "0000:8d:00.1"),
        ("ibp75s0v7", "0000:4b:01.0"),
    ],
)
def test_path_names_hold_the_address(name: str, address: str) -> None:
    decoded = addresses.from_name(name)
    assert decoded is not None
    assert str(decoded[0]) == address


def test_other_names_hold_none() -> None:
    assert [addresses.from_name(name) for name in ("mlx5_0", "reth0", "brainpf0", "enp")] == [None] * 4


def test_gid_rows_follow_the_kernels_order() -> None:
    """Link-local first; RoCE v1 before v2 for each address. Capture 50 shows exactly this table."""
    rows = gids.table(
        None,
        guid="",
        infiniband=False,
        netdev="bond0",
        mac="a0:b4:c6:00:9b:2d",
        types=("IB/RoCE v1", "RoCE v2"),
        addresses=["::ffff:198.18.93.20"],
    )
    assert [(row.index, row.gid, row.type) for row in rows] == [
        (0, "fe80:0000:0000:0000:a2b4:c6ff:fe00:9b2d", "IB/RoCE v1"),
        (1, "fe80:0000:0000:0000:a2b4:c6ff:fe00:9b2d", "RoCE v2"),
        (2, "0000:0000:0000:0000:0000:ffff:c612:5d14", "IB/RoCE v1"),
        (3, "0000:0000:0000:0000:0000:ffff:c612:5d14", "RoCE v2"),
    ]
