# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Config files of today's shared device plugin (FAULTS.md, "The incumbent's config file, exactly")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rdma_dp.core import config
from rdma_dp.core.model import Selectors


def parse(text: str) -> config.Config:
    return config.parse(json.loads(text))


def test_the_file_of_the_source_document() -> None:
    """seeds/004: its Helm values' config block."""
    found = config.parse(
        {
            "periodicUpdateInterval": 300,
            "configList": [
                {"resourcePrefix": "mellanox", "resourceName": "hca_a", "rdmaHcaMax": 1000, "devices": ["ib0", "ib1"]}
            ],
        }
    )
    assert found.periodic_update_interval == 300
    assert found.pools[0].resource == "mellanox/hca_a"
    assert found.pools[0].rdma_hca_max == 1000
    assert found.pools[0].selectors == Selectors(if_names=("ib0", "ib1"))


def test_the_file_of_its_readme() -> None:
    found = parse(
        """{"periodicUpdateInterval": 300,
            "configList": [
              {"resourceName": "hca_shared_devices_a", "rdmaHcaMax": 1000,
               "selectors": {"vendors": ["15b3"], "deviceIDs": ["1017"]}},
              {"resourceName": "hca_shared_devices_b", "rdmaHcaMax": 500,
               "selectors": {"vendors": ["15b3"], "deviceIDs": ["1017"], "ifNames": ["ib3", "ib4"]}}]}"""
    )
    assert [pool.resource for pool in found.pools] == ["rdma/hca_shared_devices_a", "rdma/hca_shared_devices_b"]
    assert found.pools[1].selectors == Selectors(vendors=("15b3",), device_ids=("1017",), if_names=("ib3", "ib4"))


@pytest.mark.parametrize(
    "text",
    [
        '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "devices": ["ib0"]}]}',
        '{"periodicUpdateInterval": null, "configList": [{"resourceName": "a", "devices": ["ib0"]}]}',
        '{"CONFIGLIST": [{"RESOURCENAME": "a", "resourceprefix": "", "Devices": ["ib0"]}]}',
        '{"configList": [{"resourceName": "a", "devices": ["ib0"], "selectors": {"vendors": []}}]}',
        '{"configList": [{"resourceName": "a", "devices": ["ib0"], "selectors": null}]}',
        '{"configList": [{"resourceName": "a", "devices": [], "selectors": {"ifNames": ["ib0"]}}]}',
        '{"configList": [{"resourceName": "a", "devices": null, "selectors": {"ifNames": ["ib0"], "drivers": []}}]}',
        '{"configList": [{"resourceName": "a", "resourcePrefix": null, "rdmaHcaMax": null, "devices": ["ib0"]}]}',
    ],
)
def test_spellings_that_it_takes_mean_the_same_here(text: str) -> None:
    found = parse(text)
    assert found.periodic_update_interval == 60
    assert found.pools[0].resource == "rdma/a"
    assert found.pools[0].selectors == Selectors(if_names=("ib0",))


def test_rescan_can_be_off() -> None:
    text = '{"periodicUpdateInterval": 0, "configList": [{"resourceName": "a", "devices": ["ib0"]}]}'
    assert parse(text).periodic_update_interval == 0


@pytest.mark.parametrize(
    ("pool", "path"),
    [
        # Taken there by accident: a resource that nobody can use, or more NICs than was meant.
        ({"resourceName": "_x"}, "resourceName"),
        ({"resourceName": "x_"}, "resourceName"),
        ({"resourceName": "a" * 200}, "resourceName"),
        ({"resourcePrefix": "a b/c"}, "resourcePrefix"),
        ({"rdmaHcaMax": 0}, "rdmaHcaMax"),
        ({"rdmaHcaMaximum": 1000}, "rdmaHcaMaximum"),
        ({"selectors": {"vendors": ["15b3"], "ifName": ["ib0"]}}, "selectors.ifName"),
        ({"selectors": {"linkTypes": ["loopback"]}}, "selectors.linkTypes[0]"),
        # Refused there, too.
        ({"rdmaHcaMax": -1}, "rdmaHcaMax"),
        ({"selectors": {"vendors": []}}, "selectors"),
        ({"devices": ["ib0"]}, "devices"),
        ({"rdmaHcaMax": "1000"}, "rdmaHcaMax"),
        ({"rdmaHcaMax": 1000.0}, "rdmaHcaMax"),
    ],
)
def test_what_it_takes_by_accident_is_refused(pool: dict[str, Any], path: str) -> None:
    document = {"configList": [{"resourceName": "a", "selectors": {"vendors": ["15b3"]}, **pool}]}
    with pytest.raises(config.ConfigInvalid) as caught:
        config.parse(document)
    assert [problem.path for problem in caught.value.problems] == [f"configList[0].{path}"]
    assert caught.value.problems[0].hint


@pytest.mark.parametrize("name", ["hca-a", "hca.a"])
def test_legal_names_that_it_refuses_are_taken(name: str) -> None:
    assert config.parse({"configList": [{"resourceName": name, "devices": ["ib0"]}]}).pools[0].resource_name == name
