# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each resource offers: modes, scopes, health, overlaps, NICs that vanish (DESIGN.md 4, 5 and 7.4)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdma_dp.core import config, message_size, pools
from rdma_dp.core.model import CharDevice, Config, Device, Nic, Picture, Pool, Port, Snapshot

ALL = {"rdmaDevices": ["*"]}
RDMA_CM = CharDevice("rdma_cm", "rdma_cm", "10:58", True)


def nic(number: int, **fields: Any) -> Nic:
    """One of the bonds of a machine with two NUMA nodes: 0 and 1 on node 0, 2 and 3 on node 1..."""
    address = f"0000:{16 + number:02x}:00.0"
    default = {
        "id": address,
        "rdma_device": f"mlx5_bond_{number}",
        "pci_address": address,
        "vendor": "15b3",
        "driver": "mlx5_core",
        "numa_node": number // 2,
        "function": "pf",
        "netdevs": (f"bond{number}",),
        "ports": (Port(1, "ACTIVE", "LinkUp", "ether", "400 Gb/sec (4X NDR)"),),
        "char_devices": (CharDevice("uverbs", f"uverbs{number}", f"231:{192 + number}", True),),
    }
    return Nic(**{**default, **fields})


def machine(*nics: Nic, rdma_cm: CharDevice | None = RDMA_CM) -> Snapshot:
    return Snapshot(tuple(sorted(nics, key=lambda nic: nic.id)), rdma_cm)


def configured(*entries: dict[str, Any]) -> Config:
    named = [{"resourceName": "hca", "selectors": ALL, **entry} for entry in entries]
    return config.parse({"configList": named})


FOUR = machine(*map(nic, range(4)))
SHARED = configured({})
EXCLUSIVE = configured({"mode": "exclusive"})


def only(picture: Picture) -> Pool:
    assert len(picture.pools) == 1
    return picture.pools[0]


def ids(found: tuple[Nic, ...]) -> list[str]:
    return [nic.id for nic in found]


# --- shared, per node -----------------------------------------------------------------------------------------------


def test_shared_offers_a_thousand_devices_per_node_that_open_all_nics() -> None:
    pool = only(pools.compute(SHARED, FOUR))
    assert [device.id for device in pool.devices] == [f"rdma.hca-{number}" for number in range(1000)]
    assert pool.healthy == 1000
    assert {device.nic_ids for device in pool.devices} == {tuple(ids(FOUR.nics))}
    assert {device.numa_nodes for device in pool.devices} == {()}
    assert pool.nics == FOUR.nics


@pytest.mark.parametrize("document", [{}, {"mode": "exclusive"}, {"rdmaHcaScope": "nic"}])
def test_without_a_nic_nothing_is_offered(document: dict[str, Any]) -> None:
    assert only(pools.compute(configured(document), Snapshot())).devices == ()
    intel = configured({**document, "selectors": {"vendors": ["8086"]}})
    assert only(pools.compute(intel, FOUR)).devices == ()


@pytest.mark.parametrize(
    ("policy", "down", "healthy"),
    [("any", 0, 5), ("any", 1, 5), ("any", 3, 5), ("any", 4, 0), ("all", 0, 5), ("all", 1, 0), ("all", 4, 0)],
)
def test_health_policy(policy: str, down: int, healthy: int) -> None:
    unhealthy = frozenset(nic.id for nic in FOUR.nics[:down])
    pool = only(pools.compute(configured({"rdmaHcaMax": 5, "healthPolicy": policy}), FOUR, unhealthy))
    assert pool.healthy == healthy
    assert len(pool.devices) == 5
    # A port that is down may come back: the NIC is opened all the same.
    assert pool.devices[0].nic_ids == tuple(ids(FOUR.nics))


def test_nic_that_can_not_be_used_is_not_opened_and_does_not_count() -> None:
    broken = nic(1, reasons=("it has no uverbs node",), char_devices=())
    pool = only(pools.compute(configured({"rdmaHcaMax": 2}), machine(nic(0), broken)))
    assert pool.devices == (
        Device("rdma.hca-0", True, (nic(0).id,)),
        Device("rdma.hca-1", True, (nic(0).id,)),
    )
    assert ids(pool.nics) == [nic(0).id, broken.id]


def test_with_no_usable_nic_all_devices_are_unhealthy() -> None:
    """FAULTS.md, "stale allocatable": capacity 1k with allocatable 0 means "all devices unhealthy"."""
    broken = nic(1, reasons=("it has no uverbs node",))
    pool = only(pools.compute(SHARED, machine(broken)))
    assert (len(pool.devices), pool.healthy) == (1000, 0)
    assert pool.devices[0].nic_ids == (broken.id,)


# --- shared, per NIC, and exclusive ---------------------------------------------------------------------------------


def test_scope_nic_offers_that_many_per_nic_with_its_numa_node() -> None:
    pool = only(pools.compute(configured({"rdmaHcaScope": "nic", "rdmaHcaMax": 2}), machine(nic(0), nic(3))))
    assert pool.devices == (
        Device("rdma.hca@0000:10:00.0-0", True, ("0000:10:00.0",), (0,)),
        Device("rdma.hca@0000:10:00.0-1", True, ("0000:10:00.0",), (0,)),
        Device("rdma.hca@0000:13:00.0-0", True, ("0000:13:00.0",), (1,)),
        Device("rdma.hca@0000:13:00.0-1", True, ("0000:13:00.0",), (1,)),
    )


def test_exclusive_offers_each_nic_once_with_its_numa_node() -> None:
    pool = only(pools.compute(EXCLUSIVE, FOUR, frozenset({"0000:11:00.0"})))
    assert pool.devices == (
        Device("0000:10:00.0", True, ("0000:10:00.0",), (0,)),
        Device("0000:11:00.0", False, ("0000:11:00.0",), (0,)),
        Device("0000:12:00.0", True, ("0000:12:00.0",), (1,)),
        Device("0000:13:00.0", True, ("0000:13:00.0",), (1,)),
    )


def test_nic_without_pci_function_is_offered_under_its_name() -> None:
    soft = nic(0, id="rxe0", rdma_device="rxe0", pci_address="", function="", numa_node=None)
    assert only(pools.compute(EXCLUSIVE, machine(soft))).devices == (Device("rxe0", True, ("rxe0",)),)


@pytest.mark.parametrize("node", [None, -1])
def test_an_unknown_numa_node_is_left_out(node: int | None) -> None:
    """KUBELET.md: never send -1, it matches no mask and gets every aligned pod refused."""
    assert only(pools.compute(EXCLUSIVE, machine(nic(0, numa_node=node)))).devices[0].numa_nodes == ()


def test_topology_can_be_left_out() -> None:
    document = {"mode": "exclusive", "excludeTopology": True}
    assert {device.numa_nodes for device in only(pools.compute(configured(document), FOUR)).devices} == {()}


def test_numa_nodes_known_of_some_nics_only_are_a_warning() -> None:
    pool = only(pools.compute(EXCLUSIVE, machine(nic(0), nic(1, numa_node=None))))
    assert len(pool.warnings) == 1
    assert "mlx5_bond_1" in pool.warnings[0]
    assert only(pools.compute(EXCLUSIVE, machine(nic(1, numa_node=None)))).warnings == ()
    assert only(pools.compute(SHARED, machine(nic(0), nic(1, numa_node=None)))).warnings == ()


def test_more_devices_than_kubelet_takes_are_cut_with_a_warning() -> None:
    nics = [nic(0, id=f"0000:{number:02x}:00.0") for number in range(64)]
    pool = only(pools.compute(configured({"rdmaHcaScope": "nic", "rdmaHcaMax": 5000}), machine(*nics)))
    per_nic = len(pool.devices) // 64
    assert len(pool.devices) == 64 * per_nic
    fronts = [f"rdma.hca@{found.id}" for found in pool.nics]
    nodes = [[0]] * 64
    assert message_size.message_size(fronts, per_nic, nodes) <= message_size.MAX_MESSAGE
    assert message_size.message_size(fronts, per_nic + 1, nodes) > message_size.MAX_MESSAGE
    assert f"offering {per_nic} per NIC" in pool.warnings[0]


# --- what a NIC must have -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("required", "missing"),
    [
        ([], None),
        (["uverbs"], None),
        (["uverbs", "umad"], "umad"),
        (["uverbs", "issm"], "issm"),
        (["uverbs", "rdma_cm"], None),
    ],
)
def test_required_char_devices(required: list[str], missing: str | None) -> None:
    document = {"mode": "exclusive", **({"requiredCharDevices": required} if required else {})}
    pool = only(pools.compute(configured(document), machine(nic(0))))
    assert pool.devices[0].healthy == (missing is None)
    assert pool.nics[0].usable == (missing is None)
    if missing:
        assert pool.nics[0].reasons[0].startswith(f"requiredCharDevices: it has no {missing}")
        assert "ib_umad" in pool.nics[0].reasons[0]


@pytest.mark.parametrize("rdma_cm", [None, replace(RDMA_CM, present=False)])
def test_rdma_cm_counts_only_where_it_is_required(rdma_cm: CharDevice | None) -> None:
    """FAULTS.md: today a NIC is dropped when rdma_ucm is not loaded."""
    without = machine(nic(0), rdma_cm=rdma_cm)
    assert only(pools.compute(EXCLUSIVE, without)).healthy == 1
    required = configured({"mode": "exclusive", "requiredCharDevices": ["uverbs", "rdma_cm"]})
    pool = only(pools.compute(required, without))
    assert pool.healthy == 0
    assert "rdma_ucm" in pool.nics[0].reasons[0]


def test_the_reason_of_discovery_is_not_repeated() -> None:
    broken = nic(0, reasons=("it has no uverbs node",), char_devices=())
    assert only(pools.compute(EXCLUSIVE, machine(broken))).nics[0].reasons == ("it has no uverbs node",)


# --- who gets which NIC ---------------------------------------------------------------------------------------------


def test_an_exclusive_pool_takes_a_nic_from_shared_ones_wherever_it_stands() -> None:
    found = configured(
        {"resourceName": "shared"}, {"resourceName": "one", "mode": "exclusive", "selectors": {"ifNames": ["bond1"]}}
    )
    picture = pools.compute(found, FOUR)
    shared, exclusive = picture.pools
    assert ids(exclusive.nics) == ["0000:11:00.0"]
    assert ids(shared.nics) == ["0000:10:00.0", "0000:12:00.0", "0000:13:00.0"]
    assert shared.warnings == ("NIC 0000:11:00.0 (mlx5_bond_1) goes to the exclusive pool rdma/one, not here",)
    assert dict(picture.taken_by)["0000:11:00.0"] == ("rdma/one",)


def test_the_first_of_two_exclusive_pools_gets_the_nic() -> None:
    found = configured({"resourceName": "a", "mode": "exclusive"}, {"resourceName": "b", "mode": "exclusive"})
    first, second = pools.compute(found, FOUR).pools
    assert len(first.devices) == 4
    assert second.devices == ()
    assert len(second.warnings) == 4


def test_two_shared_pools_share_a_nic_with_a_warning() -> None:
    found = configured({"resourceName": "a"}, {"resourceName": "b", "selectors": {"ifNames": ["bond1"]}})
    picture = pools.compute(found, FOUR)
    assert dict(picture.taken_by)["0000:11:00.0"] == ("rdma/a", "rdma/b")
    assert picture.pools[0].warnings == ("NIC 0000:11:00.0 (mlx5_bond_1) is shared with rdma/b",)
    assert picture.pools[1].warnings == ("NIC 0000:11:00.0 (mlx5_bond_1) is shared with rdma/a",)


def test_no_nic_is_in_two_modes_or_in_two_exclusive_pools() -> None:
    found = configured({"resourceName": "a"}, {"resourceName": "b", "mode": "exclusive"}, {"resourceName": "c"})
    shared, exclusive, other = pools.compute(found, FOUR).pools
    assert ids(exclusive.nics) == ids(FOUR.nics)
    assert shared.devices == other.devices == ()


def test_refused_nics_say_what_refused_them() -> None:
    one = configured({"selectors": {"vendors": ["8086"]}})
    assert dict(pools.compute(one, machine(nic(0))).refused) == {"0000:10:00.0": "vendors: 15b3 is not one of 8086"}
    two = configured({"selectors": {"vendors": ["8086"]}}, {"resourceName": "b", "selectors": {"ifNames": ["ib0"]}})
    assert dict(pools.compute(two, machine(nic(0))).refused) == {
        "0000:10:00.0": "rdma/hca: vendors: 15b3 is not one of 8086; rdma/b: ifNames: bond0 is not one of ib0"
    }


# --- from picture to picture ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selectors", "told"),
    [
        ({"deviceIDs": ["101e"]}, True),
        ({"vendors": ["15b3"], "deviceIDs": ["1021", "101e"]}, True),
        ({"rdmaDevices": ["mlx5_9"], "functions": ["pf"]}, False),
        ({"vendors": ["15b3"]}, False),  # PFs are what most people mean
        ({"deviceIDs": ["1021"]}, False),
        ({"deviceIDs": ["101e"], "functions": ["vf"]}, False),
    ],
)
def test_selectors_that_can_only_mean_vfs_are_told_how_to_say_so(selectors: dict[str, Any], told: bool) -> None:
    """A config of today's plugin with the device ID of mlx5 VFs must not become an empty pool without a word."""
    vf = nic(1, rdma_device="mlx5_9", device_id="101e", function="vf")
    pool = only(pools.compute(configured({"selectors": selectors}), machine(nic(0, device_id="1021"), vf)))
    warning = "the selectors find virtual functions (mlx5_9); these count only with functions: [vf]"
    assert pool.warnings == ((warning,) if told else ())


def test_vanished_nic_stays_unhealthy_under_its_id_until_it_is_back() -> None:
    """DESIGN.md 7.4."""
    before = pools.compute(EXCLUSIVE, FOUR)
    without = machine(nic(0), nic(1), nic(2))
    for _unused in range(2):  # over any number of scans
        before = pools.compute(EXCLUSIVE, without, previous=before)
        assert [device.id for device in only(before).devices] == ids(FOUR.nics)
        assert [device.healthy for device in only(before).devices] == [True, True, True, False]
        assert only(before).nics[3].reasons == (pools.GONE,)
    after = pools.compute(EXCLUSIVE, FOUR, previous=before)
    assert after == pools.compute(EXCLUSIVE, FOUR)


def test_shared_devices_survive_the_last_nic() -> None:
    before = pools.compute(SHARED, machine(nic(0), nic(1)))
    one = pools.compute(SHARED, machine(nic(1)), previous=before)
    assert (len(only(one).devices), only(one).healthy) == (1000, 1000)
    assert only(one).devices[0].nic_ids == (nic(1).id,)
    none = pools.compute(SHARED, machine(), previous=one)
    assert (len(only(none).devices), only(none).healthy) == (1000, 0)
    assert ids(only(none).nics) == [nic(0).id, nic(1).id]


def test_with_policy_all_a_vanished_nic_makes_the_devices_unhealthy() -> None:
    found = configured({"healthPolicy": "all"})
    before = pools.compute(found, machine(nic(0), nic(1)))
    assert only(pools.compute(found, machine(nic(0)), previous=before)).healthy == 0


def test_a_restart_forgets_vanished_nics_and_so_does_a_config_that_does_not_select_them() -> None:
    before = pools.compute(EXCLUSIVE, FOUR)
    without = machine(nic(0))
    assert ids(only(pools.compute(EXCLUSIVE, without)).nics) == [nic(0).id]
    narrower = configured({"mode": "exclusive", "selectors": {"ifNames": ["bond0", "bond1"]}})
    assert ids(only(pools.compute(narrower, without, previous=before)).nics) == [nic(0).id, nic(1).id]
    other_name = configured({"mode": "exclusive", "resourceName": "new"})
    assert ids(only(pools.compute(other_name, without, previous=before)).nics) == [nic(0).id]


@pytest.mark.parametrize("document", [{}, {"rdmaHcaScope": "nic"}, {"mode": "exclusive"}])
def test_same_input_same_picture_whatever_came_before(document: dict[str, Any]) -> None:
    found = configured(document)
    first = pools.compute(found, FOUR)
    down = pools.compute(found, FOUR, frozenset(ids(FOUR.nics)), first)
    assert down == pools.compute(found, FOUR, frozenset(ids(FOUR.nics)))
    assert pools.compute(found, FOUR, frozenset(), down) == first


@pytest.mark.parametrize("document", [{"rdmaHcaMax": 100000}, {"rdmaHcaScope": "nic", "rdmaHcaMax": 5000}])
def test_an_unchanged_rescan_builds_no_device_anew(document: dict[str, Any]) -> None:
    found = configured(document)
    first = pools.compute(found, FOUR)
    again = pools.compute(found, FOUR, previous=first)
    assert again == first
    pairs = zip(only(first).devices, only(again).devices, strict=True)
    assert all(one is other for one, other in pairs)


def test_a_change_of_one_nic_leaves_the_devices_of_the_others_alone() -> None:
    found = configured({"rdmaHcaScope": "nic", "rdmaHcaMax": 3})
    first = pools.compute(found, FOUR)
    after = pools.compute(found, FOUR, frozenset({nic(0).id}), first)
    same = [one is other for one, other in zip(only(first).devices, only(after).devices, strict=True)]
    assert same == [False] * 3 + [True] * 9


def test_a_hundred_thousand_devices_are_computed_within_a_second() -> None:
    """Of processor time; a loose bound that catches quadratic work."""
    started = time.process_time()
    assert len(only(pools.compute(configured({"rdmaHcaMax": 100000}), FOUR)).devices) == 100000
    assert time.process_time() - started < 1


modes = st.sampled_from(
    [
        {"rdmaHcaMax": 3},
        {"rdmaHcaMax": 2, "rdmaHcaScope": "nic"},
        {"mode": "exclusive"},
        {"healthPolicy": "all", "rdmaHcaMax": 3},
    ]
)
choices = st.sampled_from([ALL, {"ifNames": ["bond0", "bond2"]}, {"rdmaDevices": ["mlx5_bond_[12]"]}])
subsets = st.sets(st.integers(0, 3))


@settings(deadline=None)
@given(entries=st.lists(st.tuples(modes, choices), min_size=1, max_size=3), steps=st.lists(st.tuples(subsets, subsets)))
def test_whatever_happens_ids_are_unique_and_each_exclusive_nic_has_one_owner(
    entries: list[tuple[dict[str, Any], dict[str, Any]]], steps: list[tuple[set[int], set[int]]]
) -> None:
    found = configured(
        *({**mode, "selectors": choice, "resourceName": f"r{k}"} for k, (mode, choice) in enumerate(entries))
    )
    picture = Picture()
    for present, down in steps:
        picture = pools.compute(found, machine(*map(nic, present)), frozenset(nic(k).id for k in down), picture)
        devices = [device for pool in picture.pools for device in pool.devices]
        assert len({device.id for device in devices}) == len(devices)
        assert all(len(device.id) <= 63 for device in devices)
        owned = [found.id for pool in picture.pools if pool.config.mode == "exclusive" for found in pool.nics]
        others = {found.id for pool in picture.pools if pool.config.mode != "exclusive" for found in pool.nics}
        assert len(set(owned)) == len(owned)
        assert not others & set(owned)
        for device in devices:
            if device.healthy:
                assert any(nic_id in {nic(k).id for k in present - down} for nic_id in device.nic_ids)
