# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma-dp discover``: which NICs the machine has, what is wrong with them, and which pool takes each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rdma_dp import config_file, health
from rdma_dp.commands import GOOD, Answer, UsageError
from rdma_dp.core import discovery, pools
from rdma_dp.core.model import Nic, Picture, Snapshot
from rdma_dp.tables import Cell, Row, render

WIDTH = 120
_STATE_COLOURS = {"ACTIVE": "green", "DOWN": "red"}
_NONE = "-"


def run(config: Path | None, sysfs: Path, dev: Path, output: str, colours: bool) -> Answer:
    """``output`` is ``table`` or ``json``. Raises UsageError, ConfigUnreadable, ConfigInvalid."""
    for flag, directory in (("--sysfs", sysfs), ("--dev", dev)):
        if not directory.is_dir():
            raise UsageError(f"{flag} {directory}: there is no such directory")
    loaded = config_file.load(config) if config else None
    snapshot = discovery.scan(sysfs, dev)
    picture = pools.compute(loaded, snapshot, _down(snapshot)) if loaded else None
    warnings = list(snapshot.warnings)
    for pool in picture.pools if picture else ():
        warnings += [f"{pool.config.resource}: {warning}" for warning in pool.warnings]
    if output == "json":
        result = json.dumps(_document(snapshot, picture), indent=2) + "\n"
    else:
        result = _tables(snapshot, picture, sysfs, colours)
    return Answer(GOOD, result, tuple(warnings))


def _down(snapshot: Snapshot) -> frozenset[str]:
    """What one look says; it is also what a plugin that starts now goes by."""
    return frozenset(nic.id for nic in snapshot.nics if health.any_active(port.state for port in nic.ports) is False)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _document(snapshot: Snapshot, picture: Picture | None) -> dict[str, Any]:
    """DESIGN.md 6 and docs/config.md: the same keys on every machine, with and without a config.

    ``taken_by`` and ``refused`` of a NIC need a config; without one they are empty and null.
    """
    taken: Mapping[str, tuple[str, ...]] = dict(picture.taken_by) if picture else {}
    refused: Mapping[str, str] = dict(picture.refused) if picture else {}
    nics = []
    for nic in snapshot.nics:
        nics.append(_nic(nic) | {"taken_by": list(taken.get(nic.id, ())), "refused": refused.get(nic.id)})
    return {
        "nics": nics,
        "pools": _pools(picture),
        "rdma_cm": asdict(snapshot.rdma_cm) if snapshot.rdma_cm else None,
        "warnings": list(snapshot.warnings),
    }


def _nic(nic: Nic) -> dict[str, Any]:
    return {
        "id": nic.id,
        "rdma_device": nic.rdma_device,
        "pci_address": nic.pci_address,
        "vendor": nic.vendor,
        "device_id": nic.device_id,
        "driver": nic.driver,
        "numa_node": nic.numa_node,
        "function": nic.function,
        "netdevs": list(nic.netdevs),
        "link_layer": nic.link_layer,
        "ports": [
            {
                "port": port.number,
                "state": port.state,
                "phys_state": port.phys_state,
                "link_layer": port.link_layer,
                "rate": port.rate,
                "gids": [asdict(gid) for gid in port.gids],
            }
            for port in nic.ports
        ],
        "char_devices": [asdict(device) for device in nic.char_devices],
        "usable": nic.usable,
        "reasons": list(nic.reasons),
        "default_excluded": nic.default_excluded,
    }


def _pools(picture: Picture | None) -> list[dict[str, Any]]:
    return [
        {
            "resource": pool.config.resource,
            "mode": pool.config.mode,
            "devices": len(pool.devices),
            "healthy": pool.healthy,
            "nics": [nic.id for nic in pool.nics],
            "warnings": list(pool.warnings),
        }
        for pool in (picture.pools if picture else ())
    ]


# --- tables ---------------------------------------------------------------------------------------------------------


def _tables(snapshot: Snapshot, picture: Picture | None, sysfs: Path, colours: bool) -> str:
    parts = []
    if snapshot.nics:
        titles = ("NIC", "DEVICE", "PCI ID", "DRIVER", "NUMA", "FUNC", "LINK", "STATE", "RATE", "NETDEVS")
        rows = [_row(nic, picture) for nic in snapshot.nics]
        parts.append(render((*titles, "POOL" if picture else "USABLE"), rows, width=WIDTH, colours=colours))
    else:
        parts.append(f"There is no RDMA NIC: {sysfs / 'class/infiniband'} holds no device.\n")
    if picture:
        parts.append(_pool_table(picture, colours))
    return "\n".join(parts)


def _row(nic: Nic, picture: Picture | None) -> Row:
    states = [port.state or "unknown" for port in nic.ports]
    cells = [
        nic.id,
        nic.rdma_device,
        f"{nic.vendor}:{nic.device_id}" if nic.vendor else _NONE,
        nic.driver or _NONE,
        _NONE if nic.numa_node is None else str(nic.numa_node),
        nic.function or _NONE,
        "/".join(dict.fromkeys(port.link_layer for port in nic.ports if port.link_layer)) or _NONE,
    ]
    state = Cell("/".join(states) or _NONE, _STATE_COLOURS.get("/".join(set(states)), "yellow"))
    rates = [_rate(port.rate) for port in nic.ports]
    rest = ["/".join(rates) or _NONE, ", ".join(_netdevs(nic)) or _NONE]
    verdict, notes = _verdict(nic, picture)
    return Row((*map(Cell, cells), state, *map(Cell, rest), verdict), notes)


def _netdevs(nic: Nic) -> list[str]:
    """The netdev that a GID names comes first: it carries the NIC's addresses, and is the bond where there is one."""
    carriers = {gid.netdev for port in nic.ports for gid in port.gids}
    return sorted(nic.netdevs, key=lambda netdev: netdev not in carriers)


def _rate(rate: str) -> str:
    """``400 Gb/sec (4X NDR)`` is ``400G``."""
    amount, _unused, unit = rate.partition(" ")
    return amount + unit[:1] if amount else "?"


def _verdict(nic: Nic, picture: Picture | None) -> tuple[Cell, tuple[str, ...]]:
    """The last cell and the notes below: which pools take the NIC, what refused it, what is wrong with it."""
    if picture is None:
        notes = (f"only when a selector names it: {nic.default_excluded}",) if nic.default_excluded else ()
        return Cell("yes", "green") if nic.usable else Cell("no", "red"), (*nic.reasons, *notes)
    taken = dict(picture.taken_by).get(nic.id, ())
    if not taken:
        return Cell("none", "yellow"), (*nic.reasons, dict(picture.refused)[nic.id])
    seen = [found for pool in picture.pools for found in pool.nics if found.id == nic.id]
    reasons = tuple(dict.fromkeys(reason for found in seen for reason in found.reasons))
    return Cell(", ".join(taken), "red" if reasons else "green"), reasons


def _pool_table(picture: Picture, colours: bool) -> str:
    rows = []
    for pool in picture.pools:
        all_healthy = pool.healthy == len(pool.devices) > 0
        cells = (
            Cell(pool.config.resource),
            Cell(pool.config.mode),
            Cell(str(len(pool.devices))),
            Cell(str(pool.healthy), "green" if all_healthy else "yellow"),
            Cell(str(len(pool.nics))),
            Cell(", ".join(nic.rdma_device for nic in pool.nics) or _NONE),
        )
        rows.append(Row(cells))
    titles = ("POOL", "MODE", "DEVICES", "HEALTHY", "NICS", "NAMES")
    return render(titles, rows, width=WIDTH, colours=colours)
