# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes on a simulated machine while it runs: NICs away, ports down, numbers of character devices."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from .model import Machine, Port, RdmaDevice

_STATES = {"DOWN": "1: DOWN", "INIT": "2: INIT", "ARMED": "3: ARMED", "ACTIVE": "4: ACTIVE"}


@dataclass(frozen=True)
class Numbers:
    """Which uverbsN and umadN each RDMA device and port has. issmN has the number of its umadN."""

    uverbs: dict[str, int] = field(default_factory=dict)
    umad: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The difference to the machine's description."""

    numbers: Numbers = Numbers()
    removed: frozenset[str] = frozenset()  # RDMA devices
    ports: tuple[tuple[str, int, str], ...] = ()  # RDMA device, port, state


def current(machine: Machine, state: State) -> Machine:
    """The machine as it is now. With a NIC go its functions (both of a LAG card) and their netdevs."""
    devices = tuple(
        replace(device, ports=tuple(_port(device, port, state) for port in device.ports))
        for device in machine.rdma_devices
        if device.name not in state.removed
    )
    gone = _functions_gone(machine, state)
    netdevs = tuple(
        netdev
        for netdev in machine.netdevs
        if netdev.function not in gone and not _sub_function_gone(netdev, machine, state)
    )
    down = {name for name, _unused, text in state.ports if text == "DOWN"}
    quiet = {device.function for device in devices if device.name in down and device.function}
    return replace(
        machine,
        rdma_devices=devices,
        functions=tuple(function for function in machine.functions if function.address not in gone),
        netdevs=tuple(
            replace(netdev, up=netdev.up and not (netdev.function and netdev.function in quiet)) for netdev in netdevs
        ),
    )


def numbered(machine: Machine, previous: Numbers) -> Numbers:
    """Numbers for every device of the machine: the one it has, else the lowest free one, as the kernel gives them."""
    uverbs = {
        device.name: previous.uverbs[device.name] for device in machine.rdma_devices if device.name in previous.uverbs
    }
    keys = [(device.name, port.number) for device in machine.rdma_devices for port in device.ports if port.umad]
    umad = {key: previous.umad[key] for key in keys if key in previous.umad}
    for device in machine.rdma_devices:
        if (
            device.name not in uverbs
            and device.uverbs_number is not None
            and device.uverbs_number not in uverbs.values()
        ):
            uverbs[device.name] = device.uverbs_number
            if len(device.ports) == 1 and device.ports[0].umad:
                umad.setdefault((device.name, device.ports[0].number), device.uverbs_number)
    for device in machine.rdma_devices:
        if device.name not in uverbs:
            uverbs[device.name] = _lowest_free(set(uverbs.values()))
    for key in keys:
        if key not in umad:
            umad[key] = _lowest_free(set(umad.values()))
    return Numbers(uverbs, umad)


def renumbered(machine: Machine) -> Numbers:
    """Numbers after the driver was loaded again and found its NICs in the reverse order."""
    backwards = [replace(device, uverbs_number=None) for device in reversed(machine.rdma_devices)]
    return numbered(replace(machine, rdma_devices=tuple(backwards)), Numbers())


def to_json(state: State) -> dict[str, Any]:
    """For the file that lets another process open the machine."""
    return {
        "uverbs": state.numbers.uverbs,
        "umad": [[name, port, number] for (name, port), number in state.numbers.umad.items()],
        "removed": sorted(state.removed),
        "ports": [list(port) for port in state.ports],
    }


def from_json(data: dict[str, Any]) -> State:
    """The reverse."""
    numbers = Numbers(dict(data["uverbs"]), {(name, port): number for name, port, number in data["umad"]})
    return State(numbers, frozenset(data["removed"]), tuple((name, port, text) for name, port, text in data["ports"]))


def _lowest_free(used: set[int]) -> int:
    return next(number for number in itertools.count() if number not in used)


def _port(device: RdmaDevice, port: Port, state: State) -> Port:
    text = next((text for name, number, text in state.ports if (name, number) == (device.name, port.number)), "")
    if not text:
        return port
    no_link = "2: Polling" if port.link_layer == "InfiniBand" else "3: Disabled"
    return replace(port, state=_STATES[text], phys_state=no_link if text == "DOWN" else "5: LinkUp")


def _functions_gone(machine: Machine, state: State) -> set[str]:
    """The functions of removed NICs that carry no other RDMA device; a LAG card goes with its silent function."""
    kept = {device.function for device in machine.rdma_devices if device.name not in state.removed}
    gone = {device.function for device in machine.rdma_devices if device.name in state.removed} - kept - {""}
    bonds = {netdev.master for netdev in machine.netdevs if netdev.function in gone and netdev.master}
    with_rdma = {device.function for device in machine.rdma_devices}
    partners = {
        netdev.function for netdev in machine.netdevs if netdev.master in bonds and netdev.function not in with_rdma
    }
    return gone | partners - {""}


def _sub_function_gone(netdev: Any, machine: Machine, state: State) -> bool:
    removed = {device.sub_function for device in machine.rdma_devices if device.name in state.removed}
    return bool(netdev.sub_function) and netdev.sub_function in removed
