# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's config: a document of plain values in, a :class:`model.Config` or every mistake in it out.

The document is what a JSON or YAML parser made of the file, or what a playbook's variables hold. The file's structure
is that of today's shared device plugin, with more keys (``config_keys``). No I/O here; ``rdma_dp.config_file`` has it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping

from . import config_keys, config_rules
from .config_selectors import READERS as SELECTORS
from .model import SHARED, Config, HealthConfig, PoolConfig, Selectors
from .problems import ConfigInvalid, Problem, Report, Steps, kind

__all__ = ["ConfigInvalid", "Problem", "digest", "parse", "to_document"]

_SELECTOR_FIELDS = {
    "vendors": "vendors",
    "deviceIDs": "device_ids",
    "drivers": "drivers",
    "ifNames": "if_names",
    "linkTypes": "link_types",
    "rdmaDevices": "rdma_devices",
    "pciAddresses": "pci_addresses",
    "functions": "functions",
}
_EXAMPLE = 'write at least one: configList: [{"resourceName": "hca", "selectors": {"rdmaDevices": ["*"]}}]'


def parse(document: object) -> Config:
    """The document's config, normalised, with defaults filled in. Raises ConfigInvalid with all problems."""
    report = Report()
    if document is None:
        document = {}  # an empty file, or null, as today's plugin takes it: a config without pools
    top = config_keys.read(document, (), report, config_keys.FILE, nested=("health", "configList"))
    health = _health(top, report)
    entries = _entries(document, top, report)
    config_rules.check_together(entries, report)
    if report:
        raise ConfigInvalid(report.in_order_of(document))
    pools = tuple(entry.pool for entry in entries if entry.pool is not None)
    interval = top.values.get("periodicUpdateInterval", Config.periodic_update_interval)
    return Config(config_rules.with_nccl_left_out(pools), interval, health)


def _health(top: config_keys.Mapped, report: Report) -> HealthConfig:
    if "health" not in top.raw:
        return HealthConfig()
    values = config_keys.read(top.raw["health"], top.places["health"], report, config_keys.HEALTH).values
    default = HealthConfig()
    return HealthConfig(
        values.get("pollInterval", default.poll_interval),
        values.get("failAfter", default.fail_after),
        values.get("recoverAfter", default.recover_after),
    )


def _entries(document: object, top: config_keys.Mapped, report: Report) -> List[config_rules.Entry]:
    if "configList" not in top.raw:
        if isinstance(document, Mapping):
            report.add(("configList",), "is missing: there is no pool", _EXAMPLE)
        return []
    value, place = top.raw["configList"], top.places["configList"]
    if not isinstance(value, (list, tuple)):
        report.add(place, f"must be a list of pools, not {kind(value)}", _EXAMPLE)
        return []
    if not value:
        report.add(place, "is empty: there is no pool", _EXAMPLE)
    return [_entry(entry, (*place, index), report) for index, entry in enumerate(value)]


def _entry(value: object, place: Steps, report: Report) -> config_rules.Entry:
    """One pool. Its ``pool`` is None when something is missing or wrong that the rules between pools need."""
    mapped = config_keys.read(value, place, report, config_keys.POOL, nested=("selectors",))
    selectors = None
    if "selectors" in mapped.raw:
        selectors = config_keys.read(mapped.raw["selectors"], mapped.places["selectors"], report, SELECTORS)
    if not isinstance(value, Mapping):
        return config_rules.Entry(mapped, None)
    config_rules.check_pool(mapped, selectors, place, report)
    if "resourceName" not in mapped.values:
        return config_rules.Entry(mapped, None)
    return config_rules.Entry(mapped, _pool(mapped.values, selectors.values if selectors else {}))


def _pool(values: Dict[str, Any], selected: Dict[str, Any]) -> PoolConfig:
    default = PoolConfig("")
    fields = {field: selected[key] for key, field in _SELECTOR_FIELDS.items() if selected.get(key)}
    if values.get("devices"):
        fields["if_names"] = values["devices"]
    return PoolConfig(
        resource_name=values["resourceName"],
        resource_prefix=values.get("resourcePrefix", default.resource_prefix),
        mode=values.get("mode", default.mode),
        rdma_hca_max=values.get("rdmaHcaMax", default.rdma_hca_max),
        rdma_hca_scope=values.get("rdmaHcaScope", default.rdma_hca_scope),
        selectors=Selectors(**fields),
        required_char_devices=values.get("requiredCharDevices") or default.required_char_devices,
        health_policy=values.get("healthPolicy", default.health_policy),
        exclude_topology=values.get("excludeTopology", default.exclude_topology),
        nccl=values.get("nccl", default.nccl),
        cdi=values.get("cdi", default.cdi),
    )


def to_document(config: Config) -> Dict[str, Any]:
    """The config as the file would spell it out, with every default; ``parse`` makes the same config of it."""
    return {
        "periodicUpdateInterval": config.periodic_update_interval,
        "health": {
            "pollInterval": config.health.poll_interval,
            "failAfter": config.health.fail_after,
            "recoverAfter": config.health.recover_after,
        },
        "configList": [_pool_document(pool) for pool in config.pools],
    }


def _pool_document(pool: PoolConfig) -> Dict[str, Any]:
    selectors = {key: list(getattr(pool.selectors, field)) for key, field in _SELECTOR_FIELDS.items()}
    document: Dict[str, Any] = {
        "resourceName": pool.resource_name,
        "resourcePrefix": pool.resource_prefix,
        "mode": pool.mode,
    }
    if pool.mode == SHARED:
        document["rdmaHcaMax"] = pool.rdma_hca_max
        document["rdmaHcaScope"] = pool.rdma_hca_scope
    document["selectors"] = {key: values for key, values in selectors.items() if values}
    document["requiredCharDevices"] = list(pool.required_char_devices)
    if pool.mode == SHARED and pool.rdma_hca_scope == "node":
        document["healthPolicy"] = pool.health_policy
    return {**document, "excludeTopology": pool.exclude_topology, "nccl": pool.nccl, "cdi": pool.cdi}


def digest(config: Config) -> str:
    """Twelve hex digits that are equal for equal configs, however they were written."""
    text = json.dumps(to_document(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
