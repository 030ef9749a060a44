# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of an RDMA device and their GID tables (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import itertools
import os
import re
from typing import Dict, Iterator, Sequence, Tuple, Union

from . import sysfs
from .model import Gid, Port

_LINK_LAYERS = {"Ethernet": "ether", "InfiniBand": "infiniband"}
# Keyed by link layer too, since the kernel writes one word for two types.
_GID_TYPES = {
    ("IB/RoCE v1", "ether"): "RoCE v1",
    ("IB/RoCE v1", "infiniband"): "IB",
    ("RoCE v2", "ether"): "RoCE v2",
}
_GID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}")
_GID_SIZE = 64  # bytes; 40 are used
_EMPTY_GID = b"0000:0000:0000:0000:0000:0000:0000:0000"
_STATE = re.compile(r"(?:\d+: ?)?([A-Za-z][A-Za-z_ /<>-]{0,39})")
_LONGEST_RATE = 64
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")


def read_ports(device_path: str, all_gids: bool = True) -> Tuple[Port, ...]:
    """All ports of the device, by number. Numbers may have gaps (switchdev: one port per representor).

    With `all_gids` false, of each port only the first GID: it tells the port's netdev, and that there are GIDs at all.
    """
    path = device_path + "/ports"
    return tuple(_port(path + "/" + str(number), number, all_gids) for number in _numbers(path))


def read_states(device_path: str) -> Dict[int, str]:
    """A look between scans: port number to state ("ACTIVE", ...; "" where unreadable); {} for a device that is gone."""
    ports = device_path + "/ports"
    return {number: _state(ports + "/" + str(number) + "/state") for number in _numbers(ports)}


def _port(path: str, number: int, all_gids: bool) -> Port:
    layer = _LINK_LAYERS.get(sysfs.read_text(path + "/link_layer"), "")
    return Port(
        number=number,
        state=_state(path + "/state"),
        phys_state=_state(path + "/phys_state"),
        link_layer=layer,
        rate=sysfs.read_text(path + "/rate")[:_LONGEST_RATE],
        gids=_gids(path, layer, all_gids),
    )


def _state(path: str) -> str:
    """``4: ACTIVE`` is ACTIVE; "" for what is no state."""
    match = _STATE.fullmatch(sysfs.read_text(path))
    return match.group(1).strip() if match else ""


def _numbers(path: Union[str, int]) -> Sequence[int]:
    """Entries of a directory (a path, or open) that are plain numbers, in order."""
    try:
        names = os.listdir(path)
    except OSError:
        return ()
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _gids(port_path: str, link_layer: str, all_gids: bool) -> Tuple[Gid, ...]:
    attributes = port_path + "/gid_attrs"
    found = []
    for index, gid in itertools.islice(_filled_slots(port_path + "/gids"), None if all_gids else 1):
        written = sysfs.read_text(attributes + "/types/" + str(index))
        netdev = sysfs.read_text(attributes + "/ndevs/" + str(index))
        found.append(Gid(index, gid, _GID_TYPES.get((written, link_layer), ""), netdev))
    return tuple(found)


def _filled_slots(path: str) -> Iterator[Tuple[int, str]]:
    """Index and GID of each filled slot, by index, read as far as they are asked for.

    Slots fill and empty in any order, so that empty ones end nothing, however many. GID tables are by far the most
    that a scan reads (256 slots a port on RoCE), hence calls without wrapper, relative to the directory.
    """
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    flags, size = sysfs.READ_FLAGS, -1
    try:
        for index in itertools.count():
            try:
                file = os.open(str(index), flags, dir_fd=directory)
            except OSError:
                if size < 0:  # listing a whole table takes long, and most are read without
                    size = max(_numbers(directory), default=0)
                if index > size:
                    break
                continue
            try:
                data = os.read(file, _GID_SIZE)
            except OSError:
                continue
            finally:
                os.close(file)
            if data[:39] != _EMPTY_GID:
                gid = sysfs.first_line(data).lower()
                if _GID.fullmatch(gid):
                    yield index, gid
    finally:
        os.close(directory)
