# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scan finds on the described machines. The values are those of the machine files and of the kernel's rules."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rdma_dp.core import discovery, ports
from rdma_dp.core.model import Nic, Snapshot
from tests import nics
from tests.nics import describe

Build = Callable[..., nics.Simulated]
needs_nodes = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes can be made by root only")
pytestmark = needs_nodes


@pytest.fixture
def build() -> Iterator[Build]:
    with nics.scratch() as place:
        yield lambda machine, **options: nics.build(machine, place / "machine", **options)


def scan(simulated: nics.Simulated) -> Snapshot:
    return discovery.scan(simulated.sys, simulated.dev)


def by_name(snapshot: Snapshot) -> dict[str, Nic]:
    return {nic.rdma_device: nic for nic in snapshot.nics}


def described(**facts: object) -> nics.Machine:
    return describe.machine("made-here", facts)


# --- LAG ------------------------------------------------------------------------------------------------------------


def test_a_lag_card_is_one_nic_with_the_bond_and_both_ports(build: Build) -> None:
    snapshot = scan(build("b300"))
    assert [nic.rdma_device for nic in snapshot.nics] == [f"mlx5_bond_{number}" for number in range(8)]
    assert [nic.numa_node for nic in snapshot.nics] == [0, 0, 0, 0, 1, 1, 1, 1]
    first = snapshot.nics[0]
    assert (first.id, first.pci_address) == ("0000:18:00.0", "0000:18:00.0")
    assert first.netdevs == ("bond0", "rdma0_p0", "rdma0_p1")
    assert (first.vendor, first.device_id, first.driver, first.function) == ("15b3", "1023", "mlx5_core", "pf")
    assert first.usable
    assert first.default_excluded == ""
    assert snapshot.warnings == ()


def test_gids_have_index_type_and_netdev(build: Build) -> None:
    port = scan(build("b300")).nics[0].ports[0]
    assert (port.number, port.state, port.phys_state, port.link_layer) == (1, "ACTIVE", "LinkUp", "ether")
    assert port.rate == "400 Gb/sec (4X NDR)"
    assert [(gid.index, gid.type, gid.netdev) for gid in port.gids] == [
        (0, "RoCE v1", "bond0"),
        (1, "RoCE v2", "bond0"),
        (2, "RoCE v1", "bond0"),
        (3, "RoCE v2", "bond0"),
    ]
    assert port.gids[0].gid.startswith("fe80:")
    assert port.gids[3].gid == "fd00:4c4a:0000:0000:0000:0000:0000:0011"


def test_cards_in_other_pci_domains_have_their_own_ids(build: Build) -> None:
    snapshot = scan(build("h20"))
    assert [nic.id for nic in snapshot.nics] == ["0000:7f:00.0", "0000:c7:00.0", "0001:08:00.0", "0001:a2:00.0"]


def test_pci_domains_can_have_more_than_four_digits(build: Build) -> None:
    """Behind a VMD controller, domains start at 0x10000 (drivers/pci/controller/vmd.c)."""
    (nic,) = scan(build(described(nics=[{"rdma_device": "mlx5_0", "pci_address": "10000:01:00.0"}]))).nics
    assert (nic.id, nic.pci_address, nic.vendor) == ("10000:01:00.0", "10000:01:00.0", "15b3")


def test_what_pods_have_on_top_of_a_nic_does_not_name_it(build: Build) -> None:
    """A pod's macvlan fills rows of the NIC's table, under the name that it has in the pod."""
    simulated = build("cx7")
    before = scan(simulated).nics[0]
    port = simulated.sys / f"class/infiniband/{before.rdma_device}/ports/1"
    (port / "gids/9").write_text("fd00:0000:0000:0000:0000:0000:0000:0009\n")
    (port / "gid_attrs/types/9").write_text("RoCE v2\n")
    (port / "gid_attrs/ndevs/9").write_text("net1\n")
    after = scan(simulated).nics[0]
    assert (after.ports[0].gids[-1].index, after.ports[0].gids[-1].netdev) == (9, "net1")
    assert after.netdevs == before.netdevs


@pytest.mark.parametrize("machine", ["b300", "erdma", "multi-plane", "39-bf2-dpu-switchdev-ports-1-2-67-and-sf"])
def test_without_all_gids_only_gids_are_left_out(build: Build, machine: str) -> None:
    simulated = build(machine)
    everything, short = scan(simulated), discovery.scan(simulated.sys, simulated.dev, all_gids=False)
    cut = [
        dataclasses.replace(nic, ports=tuple(dataclasses.replace(port, gids=port.gids[:1]) for port in nic.ports))
        for nic in everything.nics
    ]
    assert short == dataclasses.replace(everything, nics=tuple(cut))


def test_on_an_ipv4_network_every_routable_gid_is_mapped(build: Build) -> None:
    for nic in scan(build("ipv4")).nics:
        assert {gid.gid.rsplit(":", 2)[0] for gid in nic.ports[0].gids if not gid.gid.startswith("fe80:")} == {
            "0000:0000:0000:0000:0000:ffff"
        }


# --- other kinds ----------------------------------------------------------------------------------------------------


def test_infiniband_goes_by_the_port_not_by_the_netdev(build: Build) -> None:
    simulated = build("infiniband")
    assert (simulated.sys / "class/net/ibp65s0/operstate").read_text() == "down\n"
    nic = scan(simulated).nics[0]
    assert (nic.link_layer, nic.ports[0].state, nic.netdevs) == ("infiniband", "ACTIVE", ("ibp65s0",))
    assert [(gid.index, gid.type, gid.netdev) for gid in nic.ports[0].gids] == [(0, "IB", "")]
    assert [device.kind for device in nic.char_devices] == ["uverbs", "umad", "issm"]


def test_two_ports_on_two_functions_are_two_nics_and_on_one_function_one(build: Build) -> None:
    found = by_name(scan(build("dual-port")))
    assert [found[name].ports[0].state for name in ("mlx5_0", "mlx5_1")] == ["ACTIVE", "DOWN"]
    vpi = found["mlx4_0"]
    assert [(port.number, port.link_layer) for port in vpi.ports] == [(1, "infiniband"), (2, "ether")]
    assert vpi.netdevs == ("enp130s0d1", "ib0")
    assert [(device.kind, device.port) for device in vpi.char_devices] == [
        ("uverbs", 0),
        ("umad", 1),
        ("umad", 2),
        ("issm", 1),
    ]


def test_pf_and_vfs_are_told_apart_by_links_not_by_names(build: Build) -> None:
    found = by_name(scan(build("vfs")))
    assert [found[f"mlx5_{number}"].function for number in range(4)] == ["pf", "vf", "vf", "vf"]
    assert found["mlx5_3"].id == "0000:c4:01.0"


def test_a_vf_in_a_vm_counts_as_a_pf(build: Build) -> None:
    nic = {"rdma_device": "mlx5_0", "pci_address": "0000:00:09.0", "device_id": "101e"}
    assert scan(build(described(nics=[nic]))).nics[0].function == "pf"


@pytest.mark.parametrize(
    ("machine", "kinds"),
    [("erdma", ["uverbs"]), ("irdma", ["uverbs", "umad"]), ("rxe", ["uverbs", "umad", "issm"])],
)
def test_nics_without_umad_or_issm_are_usable(build: Build, machine: str, kinds: list[str]) -> None:
    for nic in scan(build(machine)).nics:
        assert nic.usable
        assert [device.kind for device in nic.char_devices] == kinds


def test_efa_has_no_netdev_and_its_neighbours_are_no_nics(build: Build) -> None:
    snapshot = scan(build("efa"))
    ordinary = [nic for nic in snapshot.nics if not nic.default_excluded]
    assert [nic.rdma_device[:5] for nic in ordinary] == ["rdmap"] * 8
    assert all(nic.usable and nic.netdevs == () and nic.link_layer == "" for nic in ordinary)
    left_out = by_name(snapshot)["ibp115s0f0"]
    assert "NVLink" in left_out.default_excluded
    assert left_out.usable
    assert snapshot.warnings == ()  # rdma_cm is not loaded there, and nobody needs it


def test_soft_roce_has_no_pci_function(build: Build) -> None:
    nic = scan(build("rxe")).nics[0]
    assert (nic.id, nic.pci_address, nic.vendor, nic.driver, nic.function) == ("rxe0", "", "", "rdma_rxe", "")
    assert nic.numa_node is None
    assert nic.netdevs == ("eth1",)
    assert nic.default_excluded == ""


def test_an_smi_device_never_takes_the_id_of_its_nic(build: Build) -> None:
    simulated = build("multi-plane")
    found = by_name(scan(simulated))
    assert (found["mlx5_0"].id, found["mlx5_0"].default_excluded) == ("0000:0b:00.0", "")
    assert found["smi1"].id == "smi1"
    assert "SMI" in found["smi1"].default_excluded
    assert found["smi1"].netdevs == ()  # a selector that names the NIC's netdev means the NIC
    (simulated.sys / "class/infiniband/mlx5_0").unlink()
    assert [nic.id for nic in scan(simulated).nics] == ["smi1"]


def test_an_smi_device_of_another_name_is_known_by_its_issm(build: Build) -> None:
    port = {"port": 1, "link_layer": "InfiniBand"}
    proper = {"rdma_device": "ibp11s0", "pci_address": "0000:0b:00.0", "issm": False, "ports": [port]}
    plane = {"rdma_device": "a_plane", "pci_address": "0000:0b:00.0", "netdevs": [], "ports": [port]}
    found = by_name(scan(build(described(nics=[proper, plane]))))
    assert (found["ibp11s0"].id, found["a_plane"].id) == ("0000:0b:00.0", "a_plane")
    assert found["a_plane"].default_excluded


def test_a_subfunction_without_number_has_the_name_of_its_rdma_device(build: Build) -> None:
    nic = {
        "rdma_device": "mlx5_7",
        "pci_address": "0000:06:00.0",
        "aux_device": "mlx5_core.sf.4",
        "netdevs": ["p0sf88"],
    }
    found = scan(build(described(nics=[nic]))).nics[0]
    assert (found.id, found.function, found.pci_address, found.vendor) == ("mlx5_7", "sf", "0000:06:00.0", "15b3")


def test_a_nic_under_a_bridge_is_left_out_by_default_and_one_in_a_vrf_is_not(build: Build) -> None:
    cards = [
        {"rdma_device": "mlx5_0", "pci_address": "0000:17:00.0", "netdevs": ["one"], "master": "br0"},
        {"rdma_device": "mlx5_1", "pci_address": "0000:18:00.0", "netdevs": ["two"], "master": "vrf0"},
    ]
    simulated = build(
        described(nics=cards, netdevs=[{"name": "br0"}, {"name": "vrf0"}, {"name": "eth0", "bus": "virtio"}])
    )
    (simulated.sys / "devices/virtual/net/br0/bridge").mkdir()
    found = by_name(scan(simulated))
    assert "br0" in found["mlx5_0"].default_excluded
    assert found["mlx5_1"].default_excluded == ""


def test_a_nic_whose_bond_is_under_a_bridge_is_left_out_by_default_too(build: Build) -> None:
    simulated = build("h20")
    net = simulated.sys / "class/net"
    bridge = simulated.sys / "devices/virtual/net/br0"
    (bridge / "bridge").mkdir(parents=True)
    (net / "br0").symlink_to("../../devices/virtual/net/br0")
    (net / "bond0/master").symlink_to("../br0")
    found = by_name(scan(simulated))
    assert "br0" in found["mlx5_bond_0"].default_excluded
    assert set(found["mlx5_bond_0"].netdevs) == {"bond0", "reth0", "reth1"}
    assert found["mlx5_bond_1"].default_excluded == ""


def test_a_card_in_switchdev_mode_with_gids_is_a_nic(build: Build) -> None:
    """That a netdev is a port of a switch does not keep it from RoCE on every card."""
    simulated = build("cx7")
    (simulated.sys / "class/net/enp23s0np0/phys_switch_id").write_text("a0b4c60300001234\n")
    assert scan(simulated).nics[0].default_excluded == ""


def test_a_representor_under_a_bridge_speaks_for_another_function(build: Build) -> None:
    """Switchdev: the PF's netdevs include one for each VF, and those belong into the switch."""
    card = {"rdma_device": "mlx5_0", "pci_address": "0000:17:00.0", "netdevs": ["pf0vf0", "p0"], "master": "ovs-system"}
    simulated = build(described(nics=[card], netdevs=[{"name": "ovs-system"}, {"name": "eth0", "bus": "virtio"}]))
    assert "ovs-system" in scan(simulated).nics[0].default_excluded  # the uplink is in it, too
    net = simulated.sys / "class/net"
    (net / "pf0vf0/phys_port_name").write_text("pf0vf0\n")
    (net / "p0/master").unlink()
    assert scan(simulated).nics[0].default_excluded == ""


def test_a_machine_without_rdma_is_empty_and_quiet(build: Build) -> None:
    assert scan(build("none")) == Snapshot()


# --- NUMA -----------------------------------------------------------------------------------------------------------


def numa_of(build: Build, numa_node: int, prepare: Callable[[Path], None]) -> int | None:
    nic = {"rdma_device": "mlx5_0", "pci_address": "0000:17:00.0", "numa_node": numa_node}
    simulated = build(described(nics=[nic]))
    prepare(simulated.sys / "devices/pci0000:10/0000:10:08.0")
    return scan(simulated).nics[0].numa_node


def test_minus_one_falls_back_to_the_bridge_above(build: Build) -> None:
    assert numa_of(build, -1, lambda bridge: (bridge / "numa_node").write_text("1\n") and None) == 1


def test_minus_one_everywhere_is_unknown(build: Build) -> None:
    assert numa_of(build, -1, lambda bridge: None) is None


def test_a_node_without_cpus_is_distrusted(build: Build) -> None:
    assert numa_of(build, 1, lambda bridge: (bridge / "0000:17:00.0/local_cpulist").write_text("\n") and None) is None


@pytest.mark.parametrize(("written", "taken"), [(1023, 1023), (1024, None), (2**31 - 1, None)])
def test_a_node_beyond_what_kernels_have_is_unknown(build: Build, written: int, taken: int | None) -> None:
    """CONFIG_NODES_SHIFT is at most 10."""
    assert (
        numa_of(build, written, lambda bridge: (bridge / "0000:17:00.0/local_cpulist").write_text("0\n") and None)
        == taken
    )


def test_a_node_is_trusted_where_the_kernel_has_no_cpulist(build: Build) -> None:
    assert numa_of(build, 1, lambda bridge: (bridge / "0000:17:00.0/local_cpulist").unlink()) == 1


# --- device nodes ---------------------------------------------------------------------------------------------------


def test_without_ib_uverbs_the_reason_names_the_module(build: Build) -> None:
    nic = {"rdma_device": "mlx5_0", "pci_address": "0000:17:00.0"}
    found = scan(build(described(nics=[nic], modules=["ib_core", "mlx5_core", "mlx5_ib"]))).nics[0]
    assert not found.usable
    assert "modprobe ib_uverbs" in found.reasons[0]
    assert found.ports[0].state == "ACTIVE"


def test_a_device_whose_deletion_waits_for_a_process_is_unusable(build: Build) -> None:
    """SOFT_ROCE.md: the nodes go at once, /sys/class/infiniband/rxe0 stays."""
    simulated = build("rxe")
    (simulated.sys / "class/infiniband_verbs/uverbs0").unlink()
    (simulated.dev / "infiniband/uverbs0").unlink()
    (found,) = scan(simulated).nics
    assert "although ib_uverbs is loaded" in found.reasons[0]
    assert "modprobe" not in found.reasons[0]


def test_a_missing_node_is_named(build: Build) -> None:
    simulated = build("cx7")
    (simulated.dev / "infiniband/uverbs2").unlink()
    found = by_name(scan(simulated))
    assert f"{simulated.dev}/infiniband/uverbs2 is missing" in found["mlx5_2"].reasons[0]
    assert [found[name].usable for name in ("mlx5_0", "mlx5_1", "mlx5_3")] == [True, True, True]


def test_a_missing_dev_directory_is_named(build: Build) -> None:
    simulated = build("rxe")
    shutil.rmtree(simulated.dev / "infiniband")
    (found,) = scan(simulated).nics
    assert f"the directory {simulated.dev}/infiniband is missing" in found.reasons[0]


def test_a_node_with_another_number_than_the_kernels_is_refused(build: Build) -> None:
    simulated = build("rxe")
    (simulated.sys / "class/infiniband_verbs/uverbs0/dev").write_text("231:193\n")
    (found,) = scan(simulated).nics
    assert "has the number 231:192, the kernel's device 231:193" in found.reasons[0]


def test_a_file_in_the_place_of_a_node_is_refused(build: Build) -> None:
    simulated = build("rxe")
    (simulated.dev / "infiniband/uverbs0").unlink()
    (simulated.dev / "infiniband/uverbs0").touch()
    (found,) = scan(simulated).nics
    assert "is no character device" in found.reasons[0]


def test_a_node_that_may_not_be_looked_at_is_taken_as_it_is(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated, real_stat = build("rxe"), os.stat

    def stat(path: str, **options: object) -> os.stat_result:
        if str(path).startswith(str(simulated.dev / "infiniband")):
            raise PermissionError(13, "Permission denied")
        return real_stat(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat)
    assert scan(simulated).nics[0].usable


def test_a_missing_umad_does_not_make_a_nic_unusable(build: Build) -> None:
    simulated = build("infiniband")
    (simulated.dev / "infiniband/umad0").unlink()
    nic = scan(simulated).nics[0]
    assert nic.usable
    assert [(device.name, device.present) for device in nic.char_devices] == [
        ("uverbs0", True),
        ("umad0", False),
        ("issm0", True),
    ]


# --- warnings -------------------------------------------------------------------------------------------------------


def test_functions_without_their_drivers_are_named_with_the_remedy(build: Build) -> None:
    snapshot = scan(build("no-driver"))
    assert snapshot.nics == ()
    unbound, no_rdma = snapshot.warnings
    assert "0000:97:00.0" in unbound
    assert "modprobe mlx5_core" in unbound
    assert "0000:17:00.0" in no_rdma
    assert "0000:3d:00.0" in no_rdma
    assert "modprobe mlx5_ib" in no_rdma


@pytest.mark.parametrize("pci_class", ["0200", "0207", "0280", "0c06"])
def test_network_and_infiniband_classes_count(build: Build, pci_class: str) -> None:
    """0c06 is the class that the first InfiniBand HCAs have (pci.ids: InfiniBand, below serial bus controllers)."""
    card = {"pci_address": "0000:17:00.0", "vendor": "15b3", "device_id": "1003", "class": pci_class, "driver": ""}
    (warning,) = scan(build(described(nics=[], pci_functions=[card]))).warnings
    assert "0000:17:00.0" in warning
    assert "modprobe mlx4_core" in warning


def test_functions_of_other_classes_do_not(build: Build) -> None:
    """A BlueField's DMA controller has the vendor of its NICs."""
    other = {"pci_address": "0000:17:00.2", "vendor": "15b3", "device_id": "c2d3", "class": "0801", "driver": ""}
    assert scan(build(described(nics=[], pci_functions=[other]))).warnings == ()


def test_ethernet_nics_without_rdma_driver_matter_only_where_no_other_nic_is(build: Build) -> None:
    plain = [{"pci_address": "0000:0d:00.0", "vendor": "8086", "device_id": "159b", "driver": "ice"}]
    rdma = [{"rdma_device": "mlx5_0", "pci_address": "0000:17:00.0"}]
    assert scan(build(described(nics=rdma, pci_functions=plain))).warnings == ()


def test_an_e810_without_irdma_is_named(build: Build) -> None:
    plain = [{"pci_address": "0000:0d:00.0", "vendor": "8086", "device_id": "159b", "driver": "ice"}]
    (warning,) = scan(build(described(nics=[], pci_functions=plain))).warnings
    assert "0000:0d:00.0" in warning
    assert "modprobe irdma" in warning


def test_without_rdma_cm_the_nics_stay_and_one_warning_names_the_module(build: Build) -> None:
    cards = [{"rdma_device": f"mlx5_{number}", "pci_address": f"0000:1{number}:00.0"} for number in range(1, 3)]
    snapshot = scan(build(described(nics=cards, rdma_cm_minor=None)))
    assert all(nic.usable for nic in snapshot.nics)
    assert snapshot.rdma_cm is None
    (warning,) = snapshot.warnings
    assert "modprobe rdma_ucm" in warning


def test_soft_roce_on_a_virtual_netdev_is_no_containers_view(build: Build) -> None:
    nic = {"rdma_device": "rxe0", "netdevs": ["veth0"]}
    simulated = build(described(nics=[nic], netdevs=[]))
    card = next((simulated.sys / "devices").glob("pci0000:00/*/virtio*/net/veth0"))
    (card / "device").unlink()
    assert scan(simulated).warnings == ()
    (simulated.sys / "class/net/veth0").unlink()
    assert "hostPath" in scan(simulated).warnings[0]


def test_rdma_cm_without_node_is_reported(build: Build) -> None:
    simulated = build("rxe")
    (simulated.dev / "infiniband/rdma_cm").unlink()
    snapshot = scan(simulated)
    assert snapshot.rdma_cm is not None
    assert not snapshot.rdma_cm.present
    assert "rdma_cm is missing" in snapshot.warnings[0]


def test_rdma_cm_has_the_number_of_sysfs(build: Build) -> None:
    rdma_cm = scan(build("rxe")).rdma_cm
    assert rdma_cm is not None
    assert (rdma_cm.name, rdma_cm.number, rdma_cm.present) == ("rdma_cm", "10:124", True)


def test_a_directory_that_is_no_sysfs_is_called_so(tmp_path: Path) -> None:
    snapshot = discovery.scan(tmp_path / "nothing", tmp_path)
    assert snapshot.nics == ()
    assert "no sysfs" in snapshot.warnings[0]


# --- later looks ----------------------------------------------------------------------------------------------------


def test_port_states_follow_the_port(build: Build) -> None:
    simulated = build("dual-port")
    device = os.path.join(simulated.sys, "class", "infiniband", by_name(scan(simulated))["mlx4_0"].rdma_device)
    assert ports.read_states(device) == {1: "ACTIVE", 2: "ACTIVE"}
    simulated.set_port("mlx4_0", 2, "DOWN")
    assert ports.read_states(device) == {1: "ACTIVE", 2: "DOWN"}
    simulated.remove_nic("mlx4_0")
    assert ports.read_states(device) == {}


def test_ids_outlive_a_driver_reload_that_renumbers(build: Build) -> None:
    simulated = build("cx7")
    before = scan(simulated)
    simulated.reload_driver()
    after = scan(simulated)
    assert [nic.id for nic in before.nics] == [nic.id for nic in after.nics]
    assert [nic.char_devices[0].name for nic in before.nics] == ["uverbs0", "uverbs1", "uverbs2", "uverbs3"]
    assert [nic.char_devices[0].name for nic in after.nics] == ["uverbs3", "uverbs2", "uverbs1", "uverbs0"]
    assert all(nic.usable for nic in after.nics)


def test_with_openable_nodes_the_scan_agrees_with_them(build: Build) -> None:
    snapshot = scan(build("h20", openable=True))
    assert all(nic.usable for nic in snapshot.nics)
    assert {device.number for nic in snapshot.nics for device in nic.char_devices} == {"1:3"}
    assert snapshot.warnings == ()
