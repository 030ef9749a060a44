# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped JSON Schema against the parser: of a single value, an editor accepts what the plugin accepts.

But for whole numbers with a fraction: JSON Schema can't tell 1000.0 from 1000, and the plugin refuses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from rdma_dp import config_schema
from rdma_dp.core import config
from tests.unit.core.test_config_properties import good_documents

SHIPPED = Path(__file__).resolve().parents[2] / "image/config.schema.json"
POOL = {"resourceName": "hca", "selectors": {"vendors": ["15b3"]}}
VALIDATOR = jsonschema.Draft202012Validator(config_schema.schema())


def parses(document: Any) -> bool:
    try:
        config.parse(document)
    except config.ConfigInvalid:
        return False
    return True


def test_shipped_file_is_up_to_date() -> None:
    """To mend: python -m rdma_dp.config_schema > image/config.schema.json"""
    assert SHIPPED.read_text() == config_schema.text()


def test_every_key_is_described_and_defaults_are_those_of_the_parser() -> None:
    """An editor shows both."""
    schema = config_schema.schema()
    pool = schema["properties"]["configList"]["items"]
    found = {**schema["properties"], **schema["properties"]["health"]["properties"], **pool["properties"]}
    found |= pool["properties"]["selectors"]["properties"]
    assert set(found) == set(config_schema.DESCRIPTIONS)
    assert all(entry["description"] == config_schema.DESCRIPTIONS[key] for key, entry in found.items())
    assert {key: entry["default"] for key, entry in found.items() if "default" in entry} == {  # DESIGN.md 5
        "periodicUpdateInterval": 60,
        "pollInterval": 1.0,
        "failAfter": 2,
        "recoverAfter": 5,
        "resourcePrefix": "rdma",
        "mode": "shared",
        "rdmaHcaMax": 1000,
        "rdmaHcaScope": "node",
        "requiredCharDevices": ["uverbs"],
        "healthPolicy": "any",
        "excludeTopology": False,
        "cdi": False,
    }


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema.schema())


@settings(deadline=None)
@given(good_documents)
def test_every_normalised_config_fits(document: dict[str, Any]) -> None:
    VALIDATOR.validate(config.to_document(config.parse(document)))


@pytest.mark.parametrize(
    "document",
    [
        {"configList": [POOL]},
        {"configList": [{"resourceName": "hca", "devices": ["ib0"]}]},
        {"configList": [{**POOL, "mode": "exclusive"}]},
        {"configList": [{**POOL, "selectors": {"vendors": [], "ifNames": ["ib0"]}}]},
        {},
        {"configList": []},
        {"configList": [POOL], "unknown": 1},
        {"configList": [POOL], "periodicUpdateInterval": -1},
        {"configList": [POOL], "periodicUpdateInterval": "60"},
        {"configList": [POOL], "health": {"pollInterval": 0}},
        {"configList": [POOL], "health": {"failAfter": 1.5}},
        {"configList": [{"resourceName": "hca"}]},
        {"configList": [{"selectors": {"vendors": ["15b3"]}}]},
        {"configList": [{**POOL, "resourceName": ""}]},
        {"configList": [{**POOL, "devices": ["ib0"]}]},
        {"configList": [{"resourceName": "hca", "devices": []}]},
        {"configList": [{**POOL, "rdmaHcaMaximum": 1}]},
        {"configList": [{**POOL, "rdmaHcaMax": 0}]},
        {"configList": [{**POOL, "rdmaHcaMax": 100001}]},
        {"configList": [{**POOL, "rdmaHcaMax": "1000"}]},
        {"configList": [{**POOL, "mode": "both"}]},
        {"configList": [{**POOL, "mode": "exclusive", "rdmaHcaMax": 5}]},
        {"configList": [{**POOL, "nccl": "true"}]},
        {"configList": [{**POOL, "requiredCharDevices": ["verbs"]}]},
        {"configList": [{**POOL, "requiredCharDevices": []}]},
        {"configList": [{**POOL, "selectors": {}}]},
        {"configList": [{**POOL, "selectors": {"vendors": []}}]},
        {"configList": [{**POOL, "selectors": {"vendors": [5555]}}]},
        {"configList": [{**POOL, "selectors": {"vendors": ["Mellanox"]}}]},
        {"configList": [{**POOL, "selectors": {"vendors": "15b3"}}]},
        {"configList": [{**POOL, "selectors": {"ifName": ["ib0"]}}]},
        {"configList": [{**POOL, "selectors": {"ifNames": ["ib*"]}}]},
        {"configList": [{**POOL, "selectors": {"linkTypes": ["loopback"]}}]},
        {"configList": [{**POOL, "selectors": {"pciAddresses": ["17:00"]}}]},
        {"$schema": "./config.schema.json", "configList": [POOL]},
        {"$schema": 5, "configList": [POOL]},
        {"configList": [{**POOL, "resourceName": "_x"}]},
        {"configList": [{**POOL, "resourceName": "x_"}]},
        {"configList": [{**POOL, "resourceName": "a" * 63}]},
        {"configList": [{**POOL, "resourceName": "a" * 64}]},
        {"configList": [{**POOL, "resourceName": " "}]},
        {"configList": [{**POOL, "resourceName": "a b"}]},
        {"configList": [{**POOL, "resourceName": "rdma/hca"}]},
        {"configList": [{**POOL, "resourcePrefix": "A B/"}]},
        {"configList": [{**POOL, "resourcePrefix": "mellanox.com"}]},
        {"configList": [{**POOL, "resourcePrefix": "mellanox."}]},
        {"configList": [{**POOL, "resourcePrefix": "node.kubernetes.io"}]},
        {"configList": [{**POOL, "resourcePrefix": "kubernetes.io.example"}]},
        {"configList": [{**POOL, "resourcePrefix": "requests.rdma"}]},
        {"configList": [{**POOL, "resourcePrefix": "a" * 245}]},
        {"configList": [{**POOL, "rdmaHcaScope": "nic"}]},
        {"configList": [{**POOL, "rdmaHcaScope": "nic", "healthPolicy": "any"}]},
        {"configList": [{**POOL, "rdmaHcaScope": "node", "healthPolicy": "any"}]},
        {"configList": [{**POOL, "selectors": {"ifNames": ["a" * 15]}}]},
        {"configList": [{**POOL, "selectors": {"ifNames": ["a" * 16]}}]},
        {"configList": [{**POOL, "selectors": {"ifNames": ["a\u0007"]}}]},
        {"configList": [{**POOL, "selectors": {"ifNames": ["a b"]}}]},
        {"configList": [{**POOL, "selectors": {"ifNames": [""]}}]},
        {"configList": [{**POOL, "selectors": {"rdmaDevices": ["mlx5_[0-3]"]}}]},
        {"configList": [{**POOL, "selectors": {"rdmaDevices": ["[mlx5"]}}]},
        {"configList": [{**POOL, "selectors": {"rdmaDevices": ["mlx5_[!]"]}}]},
        {"configList": [{**POOL, "selectors": {"rdmaDevices": ["mlx5_[!]]"]}}]},
        {"configList": [{**POOL, "selectors": {"rdmaDevices": ["a\u0007"]}}]},
        {"configList": [{**POOL, "selectors": {"rdmaDevices": [""]}}]},
    ],
)
def test_schema_and_parser_agree(document: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(document) == parses(document)
