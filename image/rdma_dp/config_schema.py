# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema of the config file, made of the parser's own tables: editors complete and check with it.

It describes the normalised spelling; the parser takes more (other cases of keys, ``0x15B3``) and checks more: one value
against another (two pools of one name, the size of the device list), and ``1000.0``, which JSON Schema can't tell from
1000. ``python -m rdma_dp.config_schema > image/config.schema.json`` writes the shipped file anew.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rdma_dp.core.config_keys import FILE, HEALTH, POOL
from rdma_dp.core.config_selectors import READERS as SELECTORS
from rdma_dp.core.config_values import Reader
from rdma_dp.core.model import Config, HealthConfig, PoolConfig

_SHARED_ONLY = ("rdmaHcaMax", "rdmaHcaScope", "healthPolicy")

# What editors show for a key. docs/config.md says more.
DESCRIPTIONS = {
    "$schema": "Where editors find this schema; the plugin ignores it.",
    "periodicUpdateInterval": "Seconds between full rescans; 0 switches them off.",
    "health": "How port states become the health of devices.",
    "pollInterval": "Seconds between looks at the ports.",
    "failAfter": "So many looks in a row at a port that is down make a device Unhealthy.",
    "recoverAfter": "So many looks in a row at an active port make it Healthy again.",
    "configList": "The pools: each is one resource that pods ask for.",
    "resourceName": "The part of the resource's name behind the slash: hca of rdma/hca.",
    "resourcePrefix": "The part of the resource's name before the slash: rdma of rdma/hca.",
    "mode": "shared: pods share the NICs. exclusive: a pod owns its NICs.",
    "rdmaHcaMax": "How many devices are offered, per node or per NIC (rdmaHcaScope). Mode shared only.",
    "rdmaHcaScope": "node: each device opens all NICs of the pool. nic: each opens one. Mode shared only.",
    "selectors": "Which NICs: all fields must match, by any one of their values.",
    "devices": "Old form of selectors.ifNames; not beside selectors.",
    "requiredCharDevices": "What a NIC must have in /dev/infiniband to count.",
    "healthPolicy": "any: one usable NIC keeps the devices Healthy. all: every NIC must be. Shared, scope node only.",
    "excludeTopology": "true: kubelet is not told the NUMA nodes of the NICs.",
    "nccl": "Exclusive pools: give containers NCCL_IB_HCA with their NICs. Default false where there are several.",
    "cdi": "Hand the devices out by CDI.",
    "vendors": "PCI vendors, four hex digits: 15b3.",
    "deviceIDs": "PCI device IDs, four hex digits: 1021.",
    "drivers": "Kernel drivers: mlx5_core.",
    "ifNames": "Network interfaces, exactly; a bond's too. No altnames.",
    "linkTypes": "Of any of the NIC's ports.",
    "rdmaDevices": "RDMA devices, shell patterns: mlx5_bond_*.",
    "pciAddresses": "PCI addresses: 0000:17:00.0.",
    "functions": "Physical, virtual and scalable functions. Without it: pf and sf, and what is named exactly.",
}


def schema() -> dict[str, Any]:
    """The schema as plain values, draft 2020-12."""
    filled = {"minItems": 1}
    selectors = _object(SELECTORS) | {"anyOf": [{"required": [key], "properties": {key: filled}} for key in SELECTORS]}
    pool = _object(POOL, _defaults(PoolConfig("")), selectors=selectors) | {
        "required": ["resourceName"],
        "oneOf": [{"required": ["selectors"]}, {"required": ["devices"], "properties": {"devices": filled}}],
        "allOf": [
            _where("mode", "exclusive", without=_SHARED_ONLY),
            _where("rdmaHcaScope", "nic", without=("healthPolicy",)),
        ],
    }
    pools = {"type": "array", "minItems": 1, "items": pool}
    default = Config(())
    health = _object(HEALTH, _defaults(default.health))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Config of rdma-dp",
        **_object(FILE, _defaults(default), health=health, configList=pools),
        "required": ["configList"],
    }


def _where(key: str, value: str, *, without: Sequence[str]) -> dict[str, Any]:
    """Keys that have no meaning beside a certain value of another."""
    return {
        "if": {"properties": {key: {"const": value}}, "required": [key]},
        "then": {"properties": dict.fromkeys(without, False)},
    }


def _defaults(of: Config | HealthConfig | PoolConfig) -> dict[str, Any]:
    """By key of the file; what has no default of its own, or one that depends on other values, is left out."""
    values = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
    by_key = {"".join(part.title() if n else part for n, part in enumerate(name.split("_"))): name for name in values}
    left_out = ("resourceName", "selectors", "pools", "health", "nccl")
    return {
        key: list(values[name]) if isinstance(values[name], tuple) else values[name]
        for key, name in by_key.items()
        if key not in left_out
    }


def _object(
    readers: Mapping[str, Reader], defaults: Mapping[str, Any] | None = None, **more: dict[str, Any]
) -> dict[str, Any]:
    properties = {key: dict(reader.schema) for key, reader in readers.items()} | more
    for key, found in properties.items():
        properties[key] = {"description": DESCRIPTIONS[key], **found}
        if defaults and key in defaults:
            properties[key]["default"] = defaults[key]
    return {"type": "object", "additionalProperties": False, "properties": properties}


def text() -> str:
    """The schema as it is shipped."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(text(), end="")
