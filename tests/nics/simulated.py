# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated machine on disk, and what can happen to it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from . import disk, model, state, tree
from .model import Machine, RdmaDevice
from .state import Numbers, State
from .tree import Node, Tree

_RECORD = "machine.json"
_PORT_STATES = ("ACTIVE", "ARMED", "DOWN", "INIT")


class Simulated:
    """The machine under one root directory: ``root/sys`` and ``root/dev``.

    One process at a time may change it; any number may read the trees meanwhile.
    """

    def __init__(self, root: Path, machine: Machine, openable: bool) -> None:
        self.root = root
        self.sys = root / "sys"
        self.dev = root / "dev"
        self.machine = machine
        self.openable = openable
        self._state = State()
        self._tree: Tree = {}

    @classmethod
    def build(cls, root: Path, machine: Machine, openable: bool = False) -> Simulated:
        """Writes the trees into a directory that is empty or not there yet."""
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise FileExistsError(f"{root} is not empty: remove it, or name another directory")
        simulated = cls(root, machine, openable)
        simulated._become(State())
        return simulated

    @classmethod
    def load(cls, root: Path) -> Simulated:
        """Opens what `build` wrote, as it is now. FileNotFoundError where there is none."""
        record = json.loads((root / _RECORD).read_text())
        simulated = cls(root, model.from_dict(record["machine"]), record["openable"])
        simulated._state = state.from_json(record["state"])
        simulated._tree = simulated._render(simulated._state)
        return simulated

    def remove_nic(self, rdma_device: str) -> None:
        """Takes the NIC out: its functions, netdevs, RDMA device and nodes. KeyError for an unknown name."""
        self._known(rdma_device)
        self._become(dataclasses.replace(self._state, removed=self._state.removed | {rdma_device}))

    def restore_nic(self, rdma_device: str) -> None:
        """Puts it back. Its character devices get the lowest numbers that are free now."""
        self._known(rdma_device)
        self._become(dataclasses.replace(self._state, removed=self._state.removed - {rdma_device}))

    def set_port(self, rdma_device: str, port: int, new_state: str) -> None:
        """Port state "DOWN", "INIT", "ARMED" or "ACTIVE". The uverbs node and the GIDs stay, as on real NICs."""
        if port not in [known.number for known in self._known(rdma_device).ports]:
            raise KeyError(f"{rdma_device} has no port {port}")
        if new_state not in _PORT_STATES:
            raise ValueError(f"{new_state!r} is no port state: it is one of {', '.join(_PORT_STATES)}")
        others = tuple(entry for entry in self._state.ports if entry[:2] != (rdma_device, port))
        self._become(dataclasses.replace(self._state, ports=(*others, (rdma_device, port, new_state))))

    def reload_driver(self) -> None:
        """All RDMA devices go and come back in the reverse order, so that uverbs, umad and issm get other numbers."""
        present = state.current(self.machine, self._state)
        without = self._prepared(tree.render(dataclasses.replace(present, rdma_devices=()), Numbers()))
        disk.change(self.root, self._tree, without)
        self._tree = without
        self._become(dataclasses.replace(self._state, numbers=state.renumbered(present)))

    def _known(self, rdma_device: str) -> RdmaDevice:
        found = next((device for device in self.machine.rdma_devices if device.name == rdma_device), None)
        if found is None:
            raise KeyError(f"{self.machine.name} has no RDMA device {rdma_device!r}")
        return found

    def _become(self, wanted: State) -> None:
        numbers = state.numbered(state.current(self.machine, wanted), wanted.numbers)
        new_state = dataclasses.replace(wanted, numbers=numbers)
        new_tree = self._render(new_state)
        disk.change(self.root, self._tree, new_tree)
        self._state, self._tree = new_state, new_tree
        self._record()

    def _render(self, of: State) -> Tree:
        return self._prepared(tree.render(state.current(self.machine, of), of.numbers))

    def _prepared(self, rendered: Tree) -> Tree:
        if self.openable:
            rendered = tree.openable(rendered)
        if os.geteuid() != 0:
            rendered = {path: entry for path, entry in rendered.items() if not isinstance(entry, Node)}
        return rendered

    def _record(self) -> None:
        record = {
            "machine": dataclasses.asdict(self.machine),
            "openable": self.openable,
            "state": state.to_json(self._state),
        }
        made = self.root / ".record"
        made.write_text(json.dumps(record, indent=1) + "\n")
        made.replace(self.root / _RECORD)
