# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user asks for: which nodes with which simulated machine, and how they look to Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.sandbox.errors import SandboxError

DEFAULT_NODES = "node-a=b300,node-b=h20"
MAX_NODES = 100  # far more than one machine carries; the address plan has room for 200
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class NodeSpec:
    """One node: its name in Kubernetes, the machine whose NICs are simulated, and its place in the address plan."""

    name: str
    machine: str
    index: int


@dataclass(frozen=True)
class Spec:
    """A cluster as asked for. Two equal specs are the same cluster."""

    nodes: tuple[NodeSpec, ...]
    name: str = "sandbox"
    plain: bool = False  # without Lingjun's label and taint
    port: int | None = None  # of the API server; None: the first free one from 6443 on


def parse_nodes(text: str) -> dict[str, str]:
    """``node-a=b300,node-b=h20`` as name to machine.

    :raises SandboxError: an entry is not name=machine, or a name comes twice.
    """
    nodes: dict[str, str] = {}
    for entry in text.split(","):
        name, equals, machine = entry.strip().partition("=")
        if not (name and equals and machine):
            raise SandboxError(f"--nodes: {entry.strip()!r} is not name=machine. Write for example {DEFAULT_NODES}.")
        if name in nodes:
            raise SandboxError(f"--nodes: the name {name!r} comes twice. Give each node its own name.")
        nodes[name] = machine
    return nodes


def node_specs(nodes: Mapping[str, str]) -> tuple[NodeSpec, ...]:
    """Number the nodes in the order given.

    :raises SandboxError: none, too many, or a name that Kubernetes refuses (RFC 1123 label).
    """
    if not 1 <= len(nodes) <= MAX_NODES:
        raise SandboxError(f"A sandbox has 1 to {MAX_NODES} nodes, not {len(nodes)}.")
    for name in nodes:
        if not _NAME.fullmatch(name):
            raise SandboxError(
                f"{name!r} is no node name: use lower-case letters, digits and '-'; letter or digit at both ends."
            )
    return tuple(NodeSpec(name, machine, index) for index, (name, machine) in enumerate(nodes.items()))
