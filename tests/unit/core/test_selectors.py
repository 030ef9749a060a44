# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NICs selectors take, and the words in which they refuse (DESIGN.md 5, FAULTS.md "Selector semantics")."""

from __future__ import annotations

from typing import Any

import pytest

from rdma_dp.core.model import Nic, Port, Selectors
from rdma_dp.core.selectors import refusal


def port(number: int = 1, link_layer: str = "ether") -> Port:
    return Port(number, "ACTIVE", "LinkUp", link_layer, "400 Gb/sec (4X NDR)")


def nic(**fields: Any) -> Nic:
    """A bond of a ConnectX-7, but for what the test is about."""
    default = {
        "id": "0000:17:00.0",
        "rdma_device": "mlx5_bond_0",
        "pci_address": "0000:17:00.0",
        "vendor": "15b3",
        "device_id": "1021",
        "driver": "mlx5_core",
        "function": "pf",
        "netdevs": ("bond0", "enp23s0f0np0", "enp23s0f1np1"),
        "ports": (port(),),
    }
    return Nic(**{**default, **fields})


SOFT = nic(
    id="rxe0",
    rdma_device="rxe0",
    pci_address="",
    vendor="",
    device_id="",
    driver="rdma_rxe",
    function="",
    netdevs=("eth0",),
)


@pytest.mark.parametrize(
    "selectors",
    [
        Selectors(),
        Selectors(vendors=("8086", "15b3")),
        Selectors(vendors=("15b3",), device_ids=("1021",)),
        Selectors(drivers=("mlx5_core",)),
        Selectors(drivers=("mlx5_ib",)),  # what lsmod and `rdma link` show
        Selectors(if_names=("bond0",)),  # the bond over it
        Selectors(if_names=("enp23s0f1np1",)),  # a member of the bond
        Selectors(link_types=("ether",)),
        Selectors(rdma_devices=("mlx5_bond_*",)),
        Selectors(rdma_devices=("mlx5_0", "mlx5_bond_[0-3]")),
        Selectors(pci_addresses=("0000:b8:00.0", "0000:17:00.0")),
    ],
)
def test_nic_that_is_taken(selectors: Selectors) -> None:
    assert refusal(nic(), selectors) is None


@pytest.mark.parametrize(
    ("selectors", "words"),
    [
        (Selectors(vendors=("8086",)), "vendors: 15b3 is not one of 8086"),
        (Selectors(vendors=("8086", "1ded")), "vendors: 15b3 is not one of 8086, 1ded"),
        (Selectors(vendors=("15b3",), device_ids=("1017",)), "deviceIDs: 1021 is not one of 1017"),
        (Selectors(drivers=("irdma",)), "drivers: mlx5_core is not one of irdma"),
        (Selectors(if_names=("bond1",)), "ifNames: none of bond0, enp23s0f0np0, enp23s0f1np1 is one of bond1"),
        (Selectors(if_names=("bond",)), "ifNames: none of bond0, enp23s0f0np0, enp23s0f1np1 is one of bond"),
        (Selectors(link_types=("infiniband",)), "linkTypes: ether is not one of infiniband"),
        (Selectors(rdma_devices=("mlx5_?",)), "rdmaDevices: mlx5_bond_0 is not one of mlx5_?"),
        (Selectors(pci_addresses=("0000:17:00.1",)), "pciAddresses: 0000:17:00.0 is not one of 0000:17:00.1"),
        (Selectors(functions=("vf",)), "functions: pf is not one of vf"),
        # The first one that refuses, in the order of the config file
        (Selectors(vendors=("8086",), drivers=("ice",), functions=("vf",)), "vendors: 15b3 is not one of 8086"),
        (Selectors(device_ids=("1017",), drivers=("ice",)), "deviceIDs: 1021 is not one of 1017"),
        (Selectors(drivers=("ice",), if_names=("eth0",)), "drivers: mlx5_core is not one of ice"),
        (
            Selectors(if_names=("eth0",), link_types=("infiniband",)),
            "ifNames: none of bond0, enp23s0f0np0, enp23s0f1np1 is one of eth0",
        ),
        (Selectors(link_types=("infiniband",), rdma_devices=("x",)), "linkTypes: ether is not one of infiniband"),
        (Selectors(rdma_devices=("x",), pci_addresses=("y",)), "rdmaDevices: mlx5_bond_0 is not one of x"),
        (Selectors(pci_addresses=("y",), functions=("vf",)), "pciAddresses: 0000:17:00.0 is not one of y"),
    ],
)
def test_nic_that_is_refused(selectors: Selectors, words: str) -> None:
    assert refusal(nic(), selectors) == words


@pytest.mark.parametrize(("function", "taken"), [("pf", True), ("sf", True), ("vf", False), ("", True)])
def test_by_default_virtual_functions_stay_out(function: str, taken: bool) -> None:
    words = refusal(nic(function=function), Selectors(vendors=("15b3",)))
    assert words == (None if taken else "functions: vf is not one of pf, sf, the default")


@pytest.mark.parametrize(
    ("selectors", "taken"),
    [
        (Selectors(if_names=("ibp141s0v0",)), True),
        (Selectors(pci_addresses=("0000:8d:00.1",)), True),
        (Selectors(rdma_devices=("mlx5_1",)), True),
        (Selectors(rdma_devices=("mlx5_*",)), False),
        (Selectors(device_ids=("101e",)), False),
        (Selectors(device_ids=("101e",), functions=("vf",)), True),
        (Selectors(if_names=("ibp141s0v0",), functions=("pf",)), False),  # what is said counts
    ],
)
def test_a_vf_counts_where_a_config_of_todays_plugin_names_it(selectors: Selectors, taken: bool) -> None:
    """Today's plugin does not tell PFs from VFs; the VF is that of capture 12."""
    vf = nic(
        id="0000:8d:00.1",
        pci_address="0000:8d:00.1",
        rdma_device="mlx5_1",
        device_id="101e",
        function="vf",
        netdevs=("ibp141s0v0",),
    )
    assert (refusal(vf, selectors) is None) == taken


def test_nic_without_pci_function() -> None:
    assert refusal(SOFT, Selectors(rdma_devices=("rxe*",), functions=("pf",))) is None
    words = "functions: the NIC has none; wanted is vf, sf"
    assert refusal(SOFT, Selectors(rdma_devices=("rxe*",), functions=("vf", "sf"))) == words
    assert refusal(SOFT, Selectors(if_names=("eth0",))) is None
    assert refusal(SOFT, Selectors(vendors=("15b3",))) == "vendors: the NIC has none; wanted is 15b3"


@pytest.mark.parametrize(("driver", "taken"), [("ice", True), ("i40e", True), ("irdma", True), ("mlx5_core", False)])
def test_intel_nics_are_found_by_the_name_of_their_rdma_driver(driver: str, taken: bool) -> None:
    """FAULTS.md: vendors 8086, drivers irdma; the PCI function's driver is ice."""
    words = refusal(nic(vendor="8086", driver=driver), Selectors(vendors=("8086",), drivers=("irdma",)))
    assert (words is None) == taken


def test_a_nic_with_ports_of_both_kinds_is_found_as_either() -> None:
    """An mlx4 VPI card: Ethernet and InfiniBand on one function."""
    both = nic(ports=(port(1, "infiniband"), port(2, "ether")))
    assert refusal(both, Selectors(link_types=("ether",))) is None
    assert refusal(both, Selectors(link_types=("infiniband",))) is None
    assert refusal(nic(ports=()), Selectors(link_types=("ether",))) is not None


@pytest.mark.parametrize(
    ("selectors", "taken"),
    [
        (Selectors(rdma_devices=("*",)), False),
        (Selectors(rdma_devices=("mlx5_*",)), False),
        (Selectors(rdma_devices=("mlx5_[89]",)), False),
        (Selectors(vendors=("15b3",), device_ids=("1021",)), False),
        (Selectors(drivers=("mlx5_core",), link_types=("ether",)), False),
        (Selectors(), False),
        (Selectors(rdma_devices=("mlx5_8",)), True),
        (Selectors(rdma_devices=("*", "mlx5_8")), True),
        (Selectors(rdma_devices=("mlx5_*", "mlx5_9")), False),
        (Selectors(pci_addresses=("0000:17:00.0",)), True),
        (Selectors(if_names=("bond0",)), True),
    ],
)
def test_excluded_nic_is_taken_only_by_name(selectors: Selectors, taken: bool) -> None:
    """DESIGN.md and the HGX B200 capture: bridges of NVSwitches look like compute NICs to patterns, vendors and IDs."""
    bridge = nic(rdma_device="mlx5_8", default_excluded="it is a bridge of an NVSwitch")
    words = refusal(bridge, selectors)
    if taken:
        assert words is None
    else:
        assert words == "it is a bridge of an NVSwitch; to take it, name it in rdmaDevices, pciAddresses or ifNames"
