# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every real capture is scanned: what it states must be what is found, and what its notes warn of must not happen."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rdma_dp.core import config, discovery, pools, selectors
from rdma_dp.core.model import Nic, Pool, Selectors, Snapshot
from tests import nics
from tests.nics import library

CAPTURES = Path(library.__file__).parent / "captures"
NAMES = sorted(path.stem for path in CAPTURES.glob("*.json"))
# By the note of 39, these netdevs that a tool shows for the PFs stand for SFs.
REPRESENTORS = {"en3f0pf0sf0", "en3f1pf1sf0"}
LINK_LAYERS = {"Ethernet": "ether", "InfiniBand": "infiniband"}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes can be made by root only")

Scan = Callable[[str], Snapshot]


@pytest.fixture(scope="module")
def scan() -> Iterator[Scan]:
    """The snapshot of the capture whose number is given, each built and scanned once."""
    with nics.scratch() as place:
        snapshots: dict[str, Snapshot] = {}

        def build_and_scan(number: str) -> Snapshot:
            if number not in snapshots:
                name = next(name for name in NAMES if name.startswith(number + "-"))
                simulated = nics.build(name, place / number)
                snapshots[number] = discovery.scan(simulated.sys, simulated.dev)
            return snapshots[number]

        yield build_and_scan


def by_name(snapshot: Snapshot) -> dict[str, Nic]:
    return {nic.rdma_device: nic for nic in snapshot.nics}


def pool(snapshot: Snapshot, mode: str, **wanted: list[str]) -> Pool:
    """What a pool of that mode with these selectors offers on the machine."""
    written = {"configList": [{"resourceName": "hca", "mode": mode, "selectors": wanted}]}
    (offered,) = pools.compute(config.parse(written), snapshot).pools
    return offered


def stated_nics(name: str) -> list[Mapping[str, Any]]:
    """Those of the capture that show an RDMA device."""
    facts = json.loads((CAPTURES / f"{name}.json").read_text())["facts"]
    if name.startswith("29-"):  # two hosts in one capture; the first is built
        return facts["nics"][:1]
    return [nic for nic in facts["nics"] if nic.get("rdma_device")]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_capture_states_is_found(scan: Scan, name: str) -> None:
    snapshot = scan(name.split("-")[0])
    found = by_name(snapshot)
    for stated in stated_nics(name):
        nic = found[stated["rdma_device"]]
        assert nic.usable
        for key, value in (("vendor", nic.vendor), ("device_id", nic.device_id), ("driver", nic.driver)):
            assert stated.get(key) in (None, value), key
        if stated.get("pci_address"):
            assert nic.id == nic.pci_address == stated["pci_address"]
        if stated.get("numa_node") is not None:
            assert nic.numa_node == (stated["numa_node"] if stated["numa_node"] >= 0 else None)
        if stated.get("uverbs"):
            assert stated["uverbs"] in [device.name for device in nic.char_devices]
        assert set(stated.get("netdevs") or []) - REPRESENTORS <= set(nic.netdevs)
        assert stated.get("bond") in (None, *nic.netdevs)
        check_ports(nic, stated.get("ports") or [])
    assert len({nic.id for nic in snapshot.nics}) == len(snapshot.nics)


def check_ports(nic: Nic, stated_ports: list[Mapping[str, Any]]) -> None:
    ports = {port.number: port for port in nic.ports}
    for stated in stated_ports:
        port = ports[stated["port"]]
        if stated.get("state"):
            assert port.state == stated["state"].split(": ")[-1]
        if stated.get("phys_state"):
            assert port.phys_state == stated["phys_state"].split(": ")[-1]
        if stated.get("link_layer"):
            assert port.link_layer == LINK_LAYERS[stated["link_layer"]]
        if stated.get("gids"):
            assert [(gid.index, gid.gid) for gid in port.gids] == [(row["index"], row["gid"]) for row in stated["gids"]]
            for gid, row in zip(port.gids, stated["gids"], strict=True):
                assert row["type"] is None or gid.type == row["type"].removeprefix("IB/")
                assert row["netdev"] in (None, gid.netdev)


# Left out of pools unless named, by the notes: 16 the accelerated-networking uplink, 21 the NVSwitches' functions,
# 32 soft iWARP for boot storage beside hardware, 39 and 44 PFs in switchdev mode. Everything else that was captured is
# a NIC for pods.
LEFT_OUT = {
    "16": {"mlx5_an0"},
    "21": {"mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11"},
    "32": {"siw_eth0"},
    "39": {"mlx5_0", "mlx5_1"},
    "44": {"rocep6s0f1"},
}


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_no_nic_for_pods_is_left_out(scan: Scan, name: str) -> None:
    number = name.split("-")[0]
    left_out = {nic.rdma_device for nic in scan(number).nics if nic.default_excluded}
    assert left_out == LEFT_OUT.get(number, set())


# A card without its driver (46), hardware whose driver is not there (32), and a container's own view (47, 48, 55).
WARNED = {"32": "modprobe mlx5_ib", "46": "0000:c4:00.1", "47": "hostPath", "48": "hostPath", "55": "hostPath"}


@pytest.mark.parametrize("name", NAMES)
def test_machines_in_order_are_quiet(scan: Scan, name: str) -> None:
    number = name.split("-")[0]
    warnings = scan(number).warnings
    assert len(warnings) == (1 if number in WARNED else 0)
    assert WARNED.get(number, "") in "".join(warnings)


# --- what the notes say ---------------------------------------------------------------------------------------------


def test_01_eight_functions_are_four_nics_in_two_domains(scan: Scan) -> None:
    assert [nic.id for nic in scan("01").nics] == ["0000:7f:00.0", "0000:c7:00.0", "0001:08:00.0", "0001:a2:00.0"]


def test_02_the_storage_dpus_function_is_no_nic(scan: Scan) -> None:
    assert "0000:2c:00.0" not in [nic.pci_address for nic in scan("02").nics]


def test_04_nics_in_pairs_are_each_offered_once_with_their_node(scan: Scan) -> None:
    """Which of a pair a pod gets is kubelet's choice by device, so that neither stays idle."""
    devices = pool(scan("04"), "exclusive", rdmaDevices=["*"]).devices
    assert len({device.nic_ids for device in devices}) == 8
    assert all(len(device.nic_ids) == 1 for device in devices)
    node_of = {nic.id: nic.rdma_device for nic in scan("04").nics}
    nodes = {node_of[device.nic_ids[0]]: device.numa_nodes for device in devices}
    assert nodes == {f"mlx5_bond_{number}": (number // 4,) for number in range(8)}


def test_05_the_port_guid_is_the_bonds_not_the_nodes(scan: Scan) -> None:
    snapshot = scan("05")
    assert [nic.device_id for nic in snapshot.nics] == ["a2dc"] * 3
    assert {gid.netdev for nic in snapshot.nics[:1] for gid in nic.ports[0].gids} == {"bond0"}


def test_07_two_plain_nics_may_share_a_bond(scan: Scan) -> None:
    found = by_name(scan("07"))
    assert set(found["mlx5_0"].netdevs) == {"enp3s0f0np0", "bond0"}
    assert set(found["mlx5_1"].netdevs) == {"enp3s0f1np1", "bond0"}


def test_08_the_same_two_functions_are_one_lag_nic(scan: Scan) -> None:
    (nic,) = scan("08").nics
    assert nic.id == "0000:03:00.0"
    assert set(nic.netdevs) == {"enp3s0f0np0", "enp3s0f1np1", "bond0"}


def test_10_infiniband_ports_are_active_under_netdevs_that_are_down(scan: Scan) -> None:
    snapshot = scan("10")
    infiniband = [nic for nic in snapshot.nics if nic.link_layer == "infiniband"]
    assert len(infiniband) == 8
    assert all(nic.ports[0].state == "ACTIVE" for nic in infiniband)
    assert by_name(snapshot)["mlx5_0"].id == "0000:1a:00.0"


def test_11_numa_nodes_are_uneven(scan: Scan) -> None:
    assert [nic.numa_node for nic in scan("11").nics] == [0, 0, 1, 1, 1, 1]


def test_12_vfs_are_vfs_and_their_ports_down(scan: Scan) -> None:
    found = by_name(scan("12"))
    for name, nic in found.items():
        is_vf = int(name.removeprefix("mlx5_")) >= 19
        assert nic.function == ("vf" if is_vf else "pf")
        assert not is_vf or nic.ports[0].state == "DOWN"
    assert found["mlx5_19"].id == "0000:4b:01.0"  # VF 7 of 0000:4b:00.0
    assert (found["mlx5_4"].link_layer, found["mlx5_5"].link_layer) == ("ether", "infiniband")


def test_14_pci_vendor_counts_not_the_verbs_one(scan: Scan) -> None:
    found = by_name(scan("14"))
    assert len(found) == 14
    assert {nic.vendor for nic in found.values()} == {"15b3"}
    assert [found[name].ports[0].state for name in ("mlx5_0", "mlx5_12", "mlx5_1")] == ["DOWN", "DOWN", "ACTIVE"]


def test_15_the_compute_fabric_is_found_by_its_link_type_not_by_its_place(scan: Scan) -> None:
    """The first active device is the management card; its two ports are two NICs, each with one port numbered 1."""
    names = [nic.rdma_device for nic in pool(scan("15"), "shared", linkTypes=["infiniband"]).nics]
    assert "mlx5_2" in names
    assert not {"mlx5_0", "mlx5_1"} & set(names)
    found = by_name(scan("15"))
    ports = [(port.number, port.state) for name in ("mlx5_0", "mlx5_1") for port in found[name].ports]
    assert ports == [(1, "ACTIVE"), (1, "DOWN")]
    assert found["mlx5_0"].id != found["mlx5_1"].id


def test_16_renamed_devices_and_an_init_port(scan: Scan) -> None:
    found = by_name(scan("16"))
    assert len(found) == 9
    assert (found["mlx5_ib0"].ports[0].state, found["mlx5_ib0"].ports[0].phys_state) == ("INIT", "LinkUp")
    assert "eth0" in found["mlx5_an0"].default_excluded
    assert found["mlx5_an0"].ports[0].gids == ()  # and no umad node: still usable
    assert {nic.function for nic in found.values()} == {"pf"}  # VFs, but passed into a VM


def test_19_efa_needs_neither_netdev_nor_mad(scan: Scan) -> None:
    snapshot = scan("19")
    assert all(nic.netdevs == () and len(nic.char_devices) == 1 for nic in snapshot.nics)
    assert [nic.rdma_device for nic in snapshot.nics][:2] == ["rdmap79s0", "rdmap80s0"]  # by bus, 115 after 79


def test_22_erdma_on_the_default_route_is_a_nic(scan: Scan) -> None:
    found = by_name(scan("22"))
    assert [found[name].netdevs for name in ("erdma_0", "erdma_1")] == [("eth0",), ("eth2",)]
    assert [device.kind for device in found["erdma_0"].char_devices] == ["uverbs"]


def test_23_two_ports_of_a_broadcom_card_are_two_nics(scan: Scan) -> None:
    """enp194s0f0np0 and enp194s0f1np1: bus 194 is c2."""
    found = by_name(scan("23"))
    assert {name: nic.id for name, nic in found.items()} == {"bnxt_re0": "0000:c2:00.0", "bnxt_re1": "0000:c2:00.1"}
    assert [found[name].ports[0].state for name in ("bnxt_re0", "bnxt_re1")] == ["ACTIVE", "DOWN"]
    assert found["bnxt_re1"].ports[0].phys_state == "Disabled"
    assert found["bnxt_re1"].usable  # down is a matter of health, not of the NIC
    taken = pool(scan("23"), "exclusive", drivers=["bnxt_re"]).nics  # the RDMA driver's name; sysfs shows bnxt_en
    assert len(taken) == 2


def test_25_an_ionic_nic_that_is_down_is_a_nic(scan: Scan) -> None:
    """rocep229s0: bus 229 is e5."""
    (nic,) = scan("25").nics
    assert (nic.id, nic.driver, nic.numa_node, nic.netdevs) == ("0000:e5:00.0", "ionic", 1, ("enp229s0",))
    assert (nic.ports[0].state, nic.usable) == ("DOWN", True)
    (device,) = pool(scan("25"), "exclusive", ifNames=["enp229s0"]).devices
    assert (device.id, device.numa_nodes) == ("0000:e5:00.0", (1,))


def test_26_roce_v2_only_has_its_address_at_index_1(scan: Scan) -> None:
    nic = by_name(scan("26"))["irdma1"]
    assert {gid.type for gid in nic.ports[0].gids} == {"RoCE v2"}
    assert nic.ports[0].rate == "100 Gb/sec (4X EDR)"
    assert "issm" not in [device.kind for device in nic.char_devices]


def test_27_e810_without_issm_is_usable(scan: Scan) -> None:
    snapshot = scan("27")
    assert [nic.id for nic in snapshot.nics] == ["0000:0d:00.0", "0000:0d:00.1", "0000:b5:00.0", "0000:b5:00.1"]
    assert all(nic.usable for nic in snapshot.nics)


def test_29_the_id_does_not_hang_on_the_name(scan: Scan) -> None:
    ids = {nic.id for nic in scan("29").nics}
    node_a = nics.machine(NAMES[[name.split("-")[0] for name in NAMES].index("29")])
    renamed = dataclasses.replace(node_a.rdma_devices[0], name="rocep189s0f0")
    with nics.scratch() as place:
        simulated = nics.build(dataclasses.replace(node_a, rdma_devices=(renamed,)), place / "node-b")
        assert {nic.id for nic in discovery.scan(simulated.sys, simulated.dev).nics} == ids == {"0000:bd:00.0"}


def test_30_two_vendors_lags_keep_their_bonds(scan: Scan) -> None:
    found = by_name(scan("30"))
    assert "bond0" in found["hrn3_bond_0"].netdevs
    assert "bond1" in found["mlx5_bond_0"].netdevs


@pytest.mark.parametrize(
    ("number", "name", "driver"), [("31", "siw0", "siw"), ("32", "siw_eth0", "siw"), ("33", "rxe0", "rdma_rxe")]
)
def test_31_32_33_software_devices_have_no_pci_function(scan: Scan, number: str, name: str, driver: str) -> None:
    (nic,) = scan(number).nics
    assert (nic.id, nic.pci_address, nic.vendor, nic.driver, nic.numa_node) == (name, "", "", driver, None)


def test_35_one_function_has_two_ports_of_two_kinds(scan: Scan) -> None:
    (nic,) = scan("35").nics
    assert [port.link_layer for port in nic.ports] == ["infiniband", "ether"]
    assert nic.netdevs == ("enp130s0d1", "ib0")
    assert [device.kind for device in nic.char_devices].count("uverbs") == 1
    assert [device.port for device in nic.char_devices if device.kind == "umad"] == [1, 2]


def test_36_one_pool_per_link_layer_keeps_the_fabrics_apart(scan: Scan) -> None:
    """Of three cards, one is on Ethernet with its second port down, one on InfiniBand, one on neither."""
    snapshot = scan("36")
    ether = [nic.rdma_device for nic in pool(snapshot, "shared", linkTypes=["ether"]).nics]
    infiniband = [nic.rdma_device for nic in pool(snapshot, "shared", linkTypes=["infiniband"]).nics]
    assert "mlx4_0" in ether
    assert "mlx4_0" not in infiniband
    assert "mlx4_1" in infiniband
    assert "mlx4_1" not in ether
    states = {nic.rdma_device: [port.state for port in nic.ports] for nic in snapshot.nics}
    assert states == {"mlx4_0": ["ACTIVE", "DOWN"], "mlx4_1": ["ACTIVE"], "mlx4_2": ["DOWN", "DOWN"]}


@pytest.mark.parametrize(("number", "sub_functions"), [("39", ["mlx5_2", "mlx5_3"]), ("44", ["mlx5_0"])])
def test_39_and_44_only_subfunctions_are_offered_where_the_card_is_a_switch(
    scan: Scan, number: str, sub_functions: list[str]
) -> None:
    offered = pool(scan(number), "exclusive", rdmaDevices=["*"])
    assert sorted(nic.rdma_device for nic in offered.nics) == sub_functions
    left_out = [nic for nic in scan(number).nics if nic.rdma_device not in sub_functions]
    assert all("switchdev" in nic.default_excluded and not any(port.gids for port in nic.ports) for nic in left_out)


def test_39_a_representor_does_not_name_the_function_that_shows_it(scan: Scan) -> None:
    by_representor, by_uplink = Selectors(if_names=("en3f0pf0sf0",)), Selectors(if_names=("p0",))
    assert all(selectors.refusal(nic, by_representor) for nic in scan("39").nics)
    found = by_name(scan("39"))
    assert found["mlx5_0"].netdevs == ("p0",)
    assert selectors.refusal(found["mlx5_0"], by_uplink) is None  # named, it does raw Ethernet


def test_39_port_numbers_have_gaps_and_subfunctions_ids_of_their_own(scan: Scan) -> None:
    found = by_name(scan("39"))
    assert [port.number for port in found["mlx5_0"].ports] == [1, 2, 67]
    assert [found[f"mlx5_{number}"].function for number in range(4)] == ["pf", "pf", "sf", "sf"]
    assert found["mlx5_2"].id == "0000:03:00.0-sf0"
    assert found["mlx5_2"].netdevs == ("enp3s0f0s0",)


def test_41_a_nic_without_netdev_and_numa_node_is_a_nic(scan: Scan) -> None:
    for nic in scan("41").nics:
        assert (nic.netdevs, nic.numa_node, nic.usable) == ((), None, True)


def test_44_mlx5_0_is_a_subfunction(scan: Scan) -> None:
    nic = by_name(scan("44"))["mlx5_0"]
    assert (nic.function, nic.pci_address, nic.driver, nic.id) == (
        "sf",
        "0000:06:00.0",
        "mlx5_core",
        "0000:06:00.0-sf88",
    )


def test_46_numbers_have_gaps(scan: Scan) -> None:
    snapshot = scan("46")
    assert [nic.char_devices[0].name for nic in snapshot.nics] == [
        f"uverbs{number}" for number in (0, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    ]
    assert [nic.function for nic in snapshot.nics] == ["pf"] + ["vf"] * 9
    assert "issm" not in {device.kind for nic in snapshot.nics for device in nic.char_devices}


def test_47_and_48_gids_are_found_behind_empty_rows(scan: Scan) -> None:
    assert [gid.index for gid in by_name(scan("47"))["mlx5_0"].ports[0].gids] == [4, 5, 6, 7]
    assert [gid.index for gid in by_name(scan("48"))["mlx5_0"].ports[0].gids] == [6, 7, 8, 9]


def test_49_index_3_may_be_link_local(scan: Scan) -> None:
    gids = scan("49").nics[0].ports[0].gids
    assert (gids[3].type, gids[3].gid[:4]) == ("RoCE v2", "fe80")
    assert gids[5].gid.startswith("0000:0000:0000:0000:0000:ffff:")


def test_50_the_regular_table_has_four_rows_on_the_bond(scan: Scan) -> None:
    for name, bond in (("mlx5_bond_0", "bond0"), ("mlx5_bond_1", "bond1")):
        nic = by_name(scan("50"))[name]
        assert nic.netdevs[0] == bond
        rows = [(gid.index, gid.type, gid.netdev) for gid in nic.ports[0].gids]
        assert rows == [(index, kind, bond) for index, kind in enumerate(("RoCE v1", "RoCE v2") * 2)]


def test_54_custom_names_hide_vfs_links_do_not(scan: Scan) -> None:
    found = by_name(scan("54"))
    assert [found[f"mlx5_{number}"].function for number in range(4)] == ["pf", "pf", "vf", "vf"]
    assert "ens1f0np0" in found["mlx5_bond_0"].netdevs


def test_55_stray_files_in_class_directories_are_no_devices(scan: Scan) -> None:
    snapshot = scan("55")
    assert [nic.id for nic in snapshot.nics] == ["0000:c3:00.0", "0000:c3:00.1"]
    assert [device.number for device in snapshot.nics[1].char_devices] == ["231:193", "231:1", "231:65"]
    assert snapshot.rdma_cm is not None
    assert snapshot.rdma_cm.number == "10:57"


def test_57_a_pool_that_finds_nothing_is_there_with_no_device(scan: Scan) -> None:
    """The node shows the resource with 0, which is something else than no resource."""
    offered = pool(scan("57"), "shared", ifNames=["ens3"])
    assert (offered.config.resource, offered.devices, offered.nics) == ("rdma/hca", (), ())
