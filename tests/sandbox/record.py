# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs: written when a cluster is up, read by every later command."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from tests.sandbox.config import Ports
from tests.sandbox.network import AddressPlan
from tests.sandbox.spec import NodeSpec, Spec


@dataclass(frozen=True)
class Record:
    """A cluster that came up completely."""

    spec: Spec
    plan: AddressPlan
    ports: Ports
    gpus: int
    kubelet: Path  # the program, to start it again
    versions: str


def write(path: Path, record: Record) -> None:
    """Replace the file at once."""
    content: dict[str, Any] = {
        "spec": asdict(record.spec),
        "prefix": str(record.plan.prefix),
        "ports": asdict(record.ports),
        "gpus": record.gpus,
        "kubelet": str(record.kubelet),
        "versions": record.versions,
    }
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(content, indent=2) + "\n")
    scratch.replace(path)


def read(path: Path) -> Record | None:
    """None when there is no cluster, or the file is half written or of another version of this package."""
    try:
        content = json.loads(path.read_text())
        spec = content["spec"]
        nodes = tuple(NodeSpec(**node) for node in spec.pop("nodes"))
        return Record(
            Spec(nodes=nodes, **spec),
            AddressPlan(IPv4Network(content["prefix"])),
            Ports(**content["ports"]),
            content["gpus"],
            Path(content["kubelet"]),
            content["versions"],
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
