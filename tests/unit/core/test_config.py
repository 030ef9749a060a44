# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The config's rules (DESIGN.md 5): what is taken and as what, what is refused, where and with which remedy."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rdma_dp.core import config
from rdma_dp.core.model import Config, HealthConfig, PoolConfig, Selectors

ALL = {"rdmaDevices": ["*"]}


def pool(**keys: Any) -> dict[str, Any]:
    """A pool of all NICs, but for what the test is about."""
    return {"resourceName": "hca", "selectors": ALL, **keys}


def parse_pool(**keys: Any) -> PoolConfig:
    return config.parse({"configList": [pool(**keys)]}).pools[0]


def parse_selectors(**keys: Any) -> Selectors:
    return parse_pool(selectors=keys).selectors


def problems(document: object) -> list[config.Problem]:
    with pytest.raises(config.ConfigInvalid) as caught:
        config.parse(document)
    assert caught.value.problems
    return list(caught.value.problems)


def only_problem(document: object) -> config.Problem:
    found = problems(document)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


# --- what is taken --------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_design() -> None:
    assert config.parse({"configList": [pool()]}) == Config(
        pools=(
            PoolConfig(
                resource_name="hca",
                resource_prefix="rdma",
                mode="shared",
                rdma_hca_max=1000,
                rdma_hca_scope="node",
                selectors=Selectors(rdma_devices=("*",)),
                required_char_devices=("uverbs",),
                health_policy="any",
                exclude_topology=False,
                nccl=True,
                cdi=False,
            ),
        ),
        periodic_update_interval=60,
        health=HealthConfig(poll_interval=1.0, fail_after=2, recover_after=5),
    )


def test_every_key_of_the_design_is_taken() -> None:
    found = config.parse(
        {
            "periodicUpdateInterval": 0,
            "health": {"pollInterval": 0.5, "failAfter": 1, "recoverAfter": 10},
            "configList": [
                {
                    "resourceName": "hca_a",
                    "resourcePrefix": "mellanox.com",
                    "mode": "shared",
                    "rdmaHcaMax": 5,
                    "rdmaHcaScope": "node",
                    "selectors": {
                        "vendors": ["15b3"],
                        "deviceIDs": ["1021"],
                        "drivers": ["mlx5_core"],
                        "ifNames": ["bond0"],
                        "linkTypes": ["ether"],
                        "rdmaDevices": ["mlx5_bond_*"],
                        "pciAddresses": ["0000:17:00.0"],
                        "functions": ["vf"],
                    },
                    "requiredCharDevices": ["umad", "uverbs"],
                    "healthPolicy": "all",
                    "excludeTopology": True,
                    "nccl": False,
                    "cdi": True,
                }
            ],
        }
    )
    assert found == Config(
        pools=(
            PoolConfig(
                "hca_a",
                "mellanox.com",
                "shared",
                5,
                "node",
                Selectors(
                    ("15b3",),
                    ("1021",),
                    ("mlx5_core",),
                    ("bond0",),
                    ("ether",),
                    ("mlx5_bond_*",),
                    ("0000:17:00.0",),
                    ("vf",),
                ),
                ("uverbs", "umad"),
                "all",
                True,
                False,
                True,
            ),
        ),
        periodic_update_interval=0,
        health=HealthConfig(0.5, 1, 10),
    )
    assert found.pools[0].resource == "mellanox.com/hca_a"


@pytest.mark.parametrize(
    ("key", "field", "written", "meant"),
    [
        ("vendors", "vendors", "15b3", "15b3"),
        ("vendors", "vendors", "0x15B3", "15b3"),
        ("vendors", "vendors", "0X15b3", "15b3"),
        ("vendors", "vendors", " 15B3\n", "15b3"),  # cat .../vendor, line end and all
        ("deviceIDs", "device_ids", "0x101E", "101e"),
        ("drivers", "drivers", "mlx5_core", "mlx5_core"),
        ("drivers", "drivers", "/sys/bus/pci/drivers/mlx5_core", "mlx5_core"),
        ("drivers", "drivers", "../../../../bus/pci/drivers/mlx5_core", "mlx5_core"),  # readlink without -f
        ("drivers", "drivers", "mlx5_core.sf", "mlx5_core.sf"),
        ("ifNames", "if_names", "bond0", "bond0"),
        ("ifNames", "if_names", "/sys/class/net/ib0", "ib0"),
        ("ifNames", "if_names", "eth0.100", "eth0.100"),
        ("ifNames", "if_names", "enp23s0f0np0v12", "enp23s0f0np0v12"),  # 15 characters
        ("linkTypes", "link_types", "ether", "ether"),
        ("linkTypes", "link_types", "link/ether", "ether"),
        ("linkTypes", "link_types", "ethernet", "ether"),
        ("linkTypes", "link_types", "Ethernet", "ether"),  # sysfs' link_layer
        ("linkTypes", "link_types", "ETH", "ether"),
        ("linkTypes", "link_types", "InfiniBand", "infiniband"),
        ("linkTypes", "link_types", "link/infiniband", "infiniband"),
        ("linkTypes", "link_types", "ib", "infiniband"),
        ("rdmaDevices", "rdma_devices", "mlx5_[0-3]", "mlx5_[0-3]"),
        ("rdmaDevices", "rdma_devices", "mlx5_[!]0][]x]", "mlx5_[!]0][]x]"),
        ("rdmaDevices", "rdma_devices", "/sys/class/infiniband/mlx5_0", "mlx5_0"),
        ("pciAddresses", "pci_addresses", "0000:17:00.0", "0000:17:00.0"),
        ("pciAddresses", "pci_addresses", "0000:B8:1F.7", "0000:b8:1f.7"),
        ("pciAddresses", "pci_addresses", "17:00.0", "0000:17:00.0"),  # lspci
        ("pciAddresses", "pci_addresses", "/sys/bus/pci/devices/0001:00:00.1", "0001:00:00.1"),
        ("pciAddresses", "pci_addresses", "10000:01:00.0", "10000:01:00.0"),  # a VMD's domain
        ("functions", "functions", "VF", "vf"),
    ],
)
def test_selector_values_are_normalised(key: str, field: str, written: str, meant: str) -> None:
    assert getattr(parse_selectors(**{key: [written]}), field) == (meant,)


def test_repetitions_count_once_and_order_stays() -> None:
    assert parse_selectors(vendors=["15b3", "8086", "0x15B3"]).vendors == ("15b3", "8086")


def test_char_devices_and_functions_have_one_order() -> None:
    assert parse_pool(requiredCharDevices=["rdma_cm", "uverbs", "umad"]).required_char_devices == (
        "uverbs",
        "umad",
        "rdma_cm",
    )
    assert parse_selectors(functions=["sf", "pf"]).functions == ("pf", "sf")


def test_words_are_taken_in_any_case() -> None:
    assert parse_pool(mode="Exclusive").mode == "exclusive"
    assert parse_pool(rdmaHcaScope="NIC").rdma_hca_scope == "nic"


@pytest.mark.parametrize("value", [0, 1, 86400])
def test_interval_within_bounds(value: int) -> None:
    assert config.parse({"periodicUpdateInterval": value, "configList": [pool()]}).periodic_update_interval == value


@pytest.mark.parametrize("value", [1, 1000, 100000])
def test_rdma_hca_max_within_bounds(value: int) -> None:
    assert parse_pool(rdmaHcaMax=value).rdma_hca_max == value


def test_devices_are_an_alias_of_if_names() -> None:
    found = config.parse({"configList": [{"resourceName": "hca", "devices": ["ib0", "ib1"]}]})
    assert found.pools[0].selectors == Selectors(if_names=("ib0", "ib1"))


def test_two_resources_may_share_a_name_under_different_prefixes() -> None:
    found = config.parse({"configList": [pool(), pool(resourcePrefix="mellanox")]})
    assert [entry.resource for entry in found.pools] == ["rdma/hca", "mellanox/hca"]


def test_nccl_defaults_to_false_where_there_are_several_exclusive_pools() -> None:
    """FAULTS.md, "one container, two exclusive pools": the variable must never name only one pool's NICs."""
    one = config.parse({"configList": [pool(mode="exclusive"), pool(resourceName="b")]})
    two = config.parse({"configList": [pool(mode="exclusive"), pool(resourceName="b", mode="exclusive")]})
    assert one.pools[0].nccl
    assert [entry.nccl for entry in two.pools] == [False, False]


def test_the_largest_count_that_fits_into_kubelets_message_is_taken() -> None:
    """63-byte IDs, 78 bytes each when Unhealthy: 2 (ID) + 63 + 11 (health) + 2 (the device itself)."""
    name = "a" * 52  # "rdma." before and "-99999" behind it
    problem = only_problem({"configList": [pool(resourceName=name, rdmaHcaMax=100000)]})
    assert problem.path == "configList[0].rdmaHcaMax"
    assert "4194304" in problem.message
    fits = int(problem.hint.split("at most ")[1].split()[0])
    assert 4194304 // 78 <= fits <= 4194304 // 77  # a few of them have shorter numbers
    assert parse_pool(resourceName=name, rdmaHcaMax=fits).rdma_hca_max == fits
    only_problem({"configList": [pool(resourceName=name, rdmaHcaMax=fits + 1)]})


def test_thousands_of_pools_are_checked_within_a_second_or_two() -> None:
    pools = [pool(resourceName=f"h{number}", rdmaHcaScope="nic") for number in range(3000)]
    start = time.monotonic()
    assert len(config.parse({"configList": pools}).pools) == 3000
    assert time.monotonic() - start < 3


def test_devices_per_nic_must_fit_for_sixteen_nics() -> None:
    problem = only_problem({"configList": [pool(rdmaHcaScope="nic", rdmaHcaMax=100000)]})
    assert problem.path == "configList[0].rdmaHcaMax"
    assert "with 16 NICs" in problem.hint
    assert parse_pool(rdmaHcaScope="nic", rdmaHcaMax=5000).rdma_hca_max == 5000


def test_an_altname_is_refused_in_devices_too() -> None:
    problem = only_problem({"configList": [{"resourceName": "hca", "devices": ["a" * 16]}]})
    assert problem.path == "configList[0].devices[0]"
    assert "altname" in problem.message


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "path", "message", "hint"),
    [
        (None, "configList", "is missing", "at least one"),
        ({}, "configList", "is missing", "at least one"),
        ({"configList": None}, "configList", "is missing", "at least one"),
        ({"configList": []}, "configList", "is empty", "at least one"),
        ({"configList": {"resourceName": "hca"}}, "configList", "must be a list of pools, not a mapping", ""),
        ([], "", "must be a mapping, not a list", "configList"),
        ("configList", "", "must be a mapping, not text", "configList"),
        ({"configList": ["hca"]}, "configList[0]", "must be a mapping, not text", "resourceName"),
        ({"configList": [None]}, "configList[0]", "must be a mapping, not null", "resourceName"),
    ],
)
def test_documents_that_are_no_config(document: object, path: str, message: str, hint: str) -> None:
    problem = only_problem(document)
    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("keys", "path", "message", "hint"),
    [
        # Names
        ({"resourceName": "_hca"}, "resourceName", "not a name that Kubernetes accepts", "did you mean 'hca'?"),
        ({"resourceName": ""}, "resourceName", "is empty", ""),
        ({"resourceName": None}, "resourceName", "is missing", "hca"),
        ({"resourceName": 5}, "resourceName", "5 is a number, not text", 'in quotes: "5"'),
        ({"resourceName": True}, "resourceName", "not text", "in quotes"),
        ({"resourceName": ["hca"]}, "resourceName", "must be text, not a list", ""),
        ({"resourcePrefix": "a b/c"}, "resourcePrefix", "not a DNS subdomain", "lower-case"),
        ({"resourcePrefix": "node.kubernetes.io"}, "resourcePrefix", "reserved", "rdma"),
        # Numbers
        ({"rdmaHcaMax": 0}, "rdmaHcaMax", "0 is not between 1 and 100000", "remove the pool"),
        ({"rdmaHcaMax": -1}, "rdmaHcaMax", "-1 is not between", "leave it out for 1000"),
        ({"rdmaHcaMax": 100001}, "rdmaHcaMax", "100001 is not between", "from 1 to 100000"),
        ({"rdmaHcaMax": 10**5000}, "rdmaHcaMax", "a huge number is not between", "from 1 to 100000"),
        ({"rdmaHcaMax": 1000.0}, "rdmaHcaMax", "1000.0 is not a whole number", "write 1000"),
        ({"rdmaHcaMax": float("nan")}, "rdmaHcaMax", "nan is not a whole number", ""),
        ({"rdmaHcaMax": float("inf")}, "rdmaHcaMax", "inf is not a whole number", ""),
        ({"rdmaHcaMax": "1000"}, "rdmaHcaMax", '"1000" is text', "write 1000, without quotes"),
        ({"rdmaHcaMax": "1e3"}, "rdmaHcaMax", '"1e3" is text', "write 1000, without quotes"),
        ({"rdmaHcaMax": "1k"}, "rdmaHcaMax", '"1k" is text', "whole number"),
        ({"rdmaHcaMax": True}, "rdmaHcaMax", "not true or false", "whole number"),
        # Words and flags
        ({"mode": "exclusiv"}, "mode", '"exclusiv" is not one of shared, exclusive', "did you mean exclusive?"),
        ({"mode": True}, "mode", "not text", "quotes"),
        ({"rdmaHcaScope": "port"}, "rdmaHcaScope", "not one of node, nic", "node or nic"),
        ({"healthPolicy": "most"}, "healthPolicy", "not one of any, all", "any or all"),
        ({"nccl": "false"}, "nccl", '"false" is text', "without quotes"),
        ({"cdi": 1}, "cdi", "1 is a number", "true or false"),
        ({"excludeTopology": []}, "excludeTopology", "a list, not true or false", ""),
        # Character devices
        ({"requiredCharDevices": []}, "requiredCharDevices", "is empty", "leave it out"),
        ({"requiredCharDevices": "uverbs"}, "requiredCharDevices", "must be a list", '["uverbs"]'),
        ({"requiredCharDevices": ["verbs"]}, "requiredCharDevices[0]", "not one of", "did you mean uverbs?"),
        # Options of the other mode
        ({"mode": "exclusive", "rdmaHcaMax": 5}, "rdmaHcaMax", "no meaning in mode exclusive", "one device per NIC"),
        ({"mode": "exclusive", "rdmaHcaScope": "nic"}, "rdmaHcaScope", "no meaning", "one device per NIC"),
        ({"mode": "exclusive", "healthPolicy": "any"}, "healthPolicy", "no meaning", "its NIC"),
        ({"rdmaHcaScope": "nic", "healthPolicy": "all"}, "healthPolicy", "no meaning", "its NIC"),
        # Keys
        ({"rdmaHcaMaximum": 1000}, "rdmaHcaMaximum", "not a known key", "did you mean rdmaHcaMax?"),
        ({"resourcePrifix": "rdma"}, "resourcePrifix", "not a known key", "did you mean resourcePrefix?"),
        ({"vendors": ["15b3"]}, "vendors", "not a known key", "move it under selectors"),
        ({"ifName": ["ib0"]}, "ifName", "not a known key", "ifNames? It belongs under selectors"),
        ({"rdmaSharedDevicePlugin": 1}, "rdmaSharedDevicePlugin", "not a known key", "known here: resourceName"),
        ({"xyzzy": 1}, "xyzzy", "not a known key", "known here: resourceName"),
        ({True: 1}, "[true]", "is true or false, not text", "on and yes"),
        ({"a b\n": 1}, '["a b\\n"]', "not a known key", ""),
        ({"ResourceName": "b"}, "ResourceName", "given twice", "leave one resourceName"),
        # Selectors
        ({"selectors": {}}, "selectors", "no NICs are selected", "rdmaDevices"),
        ({"selectors": None}, "selectors", "no NICs are selected", "rdmaDevices"),
        ({"selectors": {"vendors": [], "ifNames": None}}, "selectors", "no NICs are selected", ""),
        ({"selectors": {"vendors": None}}, "selectors", "no NICs are selected", ""),
        ({"selectors": {}, "devices": []}, "selectors", "no NICs are selected", ""),
        ({"selectors": []}, "selectors", "must be a mapping, not a list", "vendors"),
        ({"selectors": {"ifName": ["ib0"]}}, "selectors.ifName", "not a known key", "did you mean ifNames?"),
        ({"selectors": {"vendors": ["15b3"], "ifName": ["ib0"]}}, "selectors.ifName", "not a known key", "ifNames"),
        ({"devices": ["ib0"]}, "devices", "stands beside selectors", "selectors.ifNames"),
        ({"devices": "ib0", "selectors": {}}, "devices", "must be a list, not text", '["ib0"]'),
    ],
)
def test_pool_that_is_refused(keys: dict[Any, Any], path: str, message: str, hint: str) -> None:
    problem = only_problem({"configList": [{"resourceName": "hca", "selectors": ALL, **keys}]})
    assert problem.path == "configList[0]" + ("" if path.startswith("[") else ".") + path
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("vendors", 1017, "1017 is a number", 'in quotes: "1017"'),
        ("vendors", 5555, "5555 is a number", '"15b3" if the file says 0x15b3'),
        ("deviceIDs", 41686, "41686 is a number", '"a2d6" if the file says 0xa2d6'),
        ("deviceIDs", 15e3, "15000.0 is a number", "in quotes"),
        ("vendors", "15b", "not a PCI ID", "four hex digits"),
        ("vendors", "Mellanox", "not a PCI ID", "four hex digits"),
        ("vendors", "15b3:1021", "not a PCI ID", "four hex digits"),
        ("vendors", "", "is empty", ""),
        ("vendors", "  ", "is empty", ""),
        ("vendors", None, "is null", ""),
        ("vendors", ["15b3"], "must be text, not a list", ""),
        ("drivers", "mlx5_core mlx4_core", "white space", "one name per entry"),
        ("drivers", "/sys/module/mlx5_core", "not the name of a driver", "mlx5_core"),
        ("drivers", True, "not text", ""),
        ("ifNames", "bond*", "is a pattern", "rdmaDevices"),
        ("ifNames", "a/b", "not the name of a network interface", "bond0"),
        ("ifNames", "enp23s0f0np0-rail", "17 characters, so it is an altname", "or use pciAddresses"),
        ("ifNames", "a" * 16, "16 characters, so it is an altname", "at most 15"),  # IFNAMSIZ
        ("ifNames", "eth\x000", "unprintable", ""),
        ("ifNames", "eth\ud800", "unprintable", ""),
        ("linkTypes", "ethernot", "not one of ether, infiniband", "did you mean ether?"),
        ("linkTypes", "loopback", "not one of ether, infiniband", ""),
        ("rdmaDevices", "/dev/infiniband/uverbs0", "not the name of an RDMA device", "mlx5_0"),
        ("rdmaDevices", "[mlx5", "has a [ without its ]", "mlx5_[0-3]"),
        ("rdmaDevices", "mlx5_[!]", "has a [ without its ]", ""),  # to fnmatch, the ] is a member here
        ("rdmaDevices", "mlx5_[]", "has a [ without its ]", ""),
        ("pciAddresses", 1020.0, "1020.0 is a number", '"0000:17:00.0"'),
        ("pciAddresses", "17:00", "not a PCI address", '"0000:17:00.0"'),
        ("pciAddresses", "0000:17:20.0", "not a PCI address", ""),  # a bus has 32 devices
        ("pciAddresses", "0000:17:00.8", "not a PCI address", ""),  # a device has 8 functions
        ("functions", "pfs", "not one of pf, vf, sf", "did you mean pf?"),
    ],
)
def test_selector_value_that_is_refused(key: str, value: object, message: str, hint: str) -> None:
    good = {"vendors": "15b3", "deviceIDs": "1021", "linkTypes": "ether", "functions": "pf"}.get(key, "0000:01:00.0")
    good = {"drivers": "mlx5_core", "ifNames": "ib0", "rdmaDevices": "rxe0"}.get(key, good)
    problem = only_problem({"configList": [{"resourceName": "hca", "selectors": {key: [good, value]}}]})
    assert problem.path == f"configList[0].selectors.{key}[1]"
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("keys", "path", "message", "hint"),
    [
        ({"periodicUpdateInterval": -10}, "periodicUpdateInterval", "-10 is not between 0 and 86400", "write 0"),
        ({"periodicUpdateInterval": 86401}, "periodicUpdateInterval", "86401", "86400"),
        ({"periodicUpdateInterval": "60"}, "periodicUpdateInterval", '"60" is text', "write 60"),
        ({"health": []}, "health", "must be a mapping", "pollInterval"),
        ({"health": {"pollInterval": 0}}, "health.pollInterval", "0 is not between 0.1 and 3600", ""),
        ({"health": {"pollInterval": float("nan")}}, "health.pollInterval", "nan is not between", ""),
        ({"health": {"pollInterval": "1s"}}, "health.pollInterval", '"1s" is text', ""),
        ({"health": {"failAfter": 0}}, "health.failAfter", "0 is not between 1", ""),
        ({"health": {"failAfter": 1.5}}, "health.failAfter", "1.5 is not a whole number", ""),
        ({"health": {"failafter": 2, "failAfter": 2}}, "health.failAfter", "given twice", ""),
        ({"failAfter": 2}, "failAfter", "not a known key", "move it under health"),
        ({"resourceName": "hca"}, "resourceName", "not a known key", "move it into a pool"),
        ({"ConfigList": []}, "ConfigList", "given twice", "configList"),
    ],
)
def test_top_level_that_is_refused(keys: dict[str, Any], path: str, message: str, hint: str) -> None:
    problem = only_problem({"configList": [pool()], **keys})
    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {}, "rdma/hca is offered by configList[0] already"),
        ({"resourcePrefix": "rdma"}, {"resourcePrefix": None}, "rdma/hca is offered by configList[0] already"),
        ({"resourceName": "hca-a"}, {"resourceName": "hca.a"}, "RDMA_DP_RDMA_HCA_A_DEVICES"),
        ({"resourceName": "hca_a"}, {"resourceName": "hca-a"}, "RDMA_DP_RDMA_HCA_A_DEVICES"),
        ({"resourceName": "hca"}, {"resourceName": "HCA"}, "RDMA_DP_RDMA_HCA_DEVICES"),
        ({"resourcePrefix": "a-b"}, {"resourcePrefix": "a.b"}, "RDMA_DP_A_B_HCA_DEVICES"),
    ],
)
def test_resources_that_get_in_each_others_way(first: dict[str, Any], second: dict[str, Any], message: str) -> None:
    problem = only_problem({"configList": [pool(**first), pool(**second)]})
    assert problem.path == "configList[1].resourceName"
    assert message in problem.message


def test_nccl_can_not_be_asked_for_in_two_exclusive_pools() -> None:
    found = problems(
        {"configList": [pool(mode="exclusive", nccl=True), pool(resourceName="b", mode="exclusive", nccl=True)]}
    )
    assert [problem.path for problem in found] == ["configList[0].nccl", "configList[1].nccl"]


def test_all_problems_at_once_in_file_order() -> None:
    found = problems(
        {
            "periodicUpdateInterval": -1,
            "configList": [
                {
                    "selectors": {"vendors": ["15b3", 5555], "linkTypes": ["ethernot"]},
                    "resourceName": "_hca",
                    "rdmaHcaMaximum": 1000,
                },
                {"resourceName": "b", "mode": "exclusive", "rdmaHcaMax": 1, "selectors": {"ifName": ["ib0"]}},
                {"resourceName": "b", "devices": []},
            ],
            "health": {"pollInterval": "1"},
        }
    )
    assert [problem.path for problem in found] == [
        "periodicUpdateInterval",
        "configList[0].selectors.vendors[1]",
        "configList[0].selectors.linkTypes[0]",
        "configList[0].resourceName",
        "configList[0].rdmaHcaMaximum",
        "configList[1].rdmaHcaMax",
        "configList[1].selectors.ifName",
        "configList[2].resourceName",
        "configList[2].selectors",
        "health.pollInterval",
    ]


def test_the_exception_says_everything() -> None:
    with pytest.raises(config.ConfigInvalid, match=r"configList\[0\]\.resourceName.*; configList\[0\]\.cdi"):
        config.parse({"configList": [pool(resourceName="_x", cdi=1)]})


# --- the normalised form --------------------------------------------------------------------------------------------


def test_normalised_document_has_the_designs_names_and_only_what_applies() -> None:
    shared, exclusive = config.to_document(
        config.parse({"configList": [pool(), pool(resourceName="b", mode="exclusive")]})
    )["configList"]
    assert shared == {
        "resourceName": "hca",
        "resourcePrefix": "rdma",
        "mode": "shared",
        "rdmaHcaMax": 1000,
        "rdmaHcaScope": "node",
        "selectors": {"rdmaDevices": ["*"]},  # functions are not spelled out: given, they bar VFs that are named
        "requiredCharDevices": ["uverbs"],
        "healthPolicy": "any",
        "excludeTopology": False,
        "nccl": True,
        "cdi": False,
    }
    assert set(shared) - set(exclusive) == {"rdmaHcaMax", "rdmaHcaScope", "healthPolicy"}


def test_digest_is_of_the_meaning_not_of_the_spelling() -> None:
    one = config.parse({"configList": [pool(selectors={"vendors": ["0x15B3"]})]})
    same = config.parse({"configList": [pool(selectors={"vendors": ["15b3"]}, rdmaHcaMax=1000)]})
    other = config.parse({"configList": [pool(selectors={"vendors": ["15b3"]}, rdmaHcaMax=999)]})
    assert config.digest(one) == config.digest(same) != config.digest(other)
    assert len(config.digest(one)) == 12
