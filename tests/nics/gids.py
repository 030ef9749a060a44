# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MAC addresses, GUIDs and GID tables, made by the kernel's rules."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .model import Gid

EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
_LINK_LOCAL = "fe80:0000:0000:0000:"


def mac(owner: str, port: int = 0) -> str:
    """A locally administered address that depends on nothing but its owner."""
    digits = hashlib.sha256(f"{owner}/{port}".encode()).hexdigest()[:10]
    return ":".join(["02", *(digits[index : index + 2] for index in range(0, 10, 2))])


def eui64(address: str) -> str:
    """The interface identifier of a MAC address, in four groups: 02:00:5e:00:4a:cc is 0000:5eff:fe00:4acc."""
    octets = [int(part, 16) for part in address.split(":")]
    octets[0] ^= 2
    octets[3:3] = [0xFF, 0xFE]
    return ":".join(f"{octets[index]:02x}{octets[index + 1]:02x}" for index in range(0, 8, 2))


def guid(text: Any) -> str:
    """A GUID in any form that tools print, as sysfs writes it; "" for None."""
    digits = str(text or "").removeprefix("0x").replace(":", "")
    return ":".join(digits[index : index + 4] for index in range(0, len(digits), 4))


def made_up_guid(owner: str, index: int) -> str:
    """A GUID with a vendor's prefix, as cards have it."""
    return f"a0b4:c603:{int(hashlib.sha256(owner.encode()).hexdigest()[:4], 16):04x}:{index:04x}"


def table(
    rows: Sequence[Mapping[str, Any]] | None,
    *,
    guid: str,
    infiniband: bool,
    netdev: str,
    mac: str,
    types: Sequence[str],
    addresses: Iterable[str] | None,
) -> tuple[Gid, ...]:
    """The filled rows: those given, else what the kernel makes of the netdev's addresses.

    RoCE: the link-local address first, then each address, every one with each of the port's types. InfiniBand: the
    subnet prefix and the GUID. Addresses default to one IPv4 address.
    """
    if rows is not None:
        return tuple(
            Gid(row["index"], row["gid"], row.get("type") or _type(row, types), row.get("netdev") or netdev)
            for row in rows
        )
    if infiniband:
        return (Gid(0, _LINK_LOCAL + guid, "IB/RoCE v1"),)
    if len(types) == 1 and types[0] == "IB/RoCE v1":  # no RoCE at all: one row, which no address makes
        return (Gid(0, _LINK_LOCAL + eui64(mac), types[0], netdev),)
    if addresses is None:
        last = mac.split(":")
        addresses = [f"::ffff:10.{int(last[3], 16)}.{int(last[4], 16)}.{int(last[5], 16)}"]
    written = [_LINK_LOCAL + eui64(mac), *(_in_full(address) for address in addresses)]
    pairs = [(address, kind) for address in written for kind in types]
    return tuple(Gid(index, address, kind, netdev) for index, (address, kind) in enumerate(pairs))


def _in_full(address: str) -> str:
    return ipaddress.IPv6Address(address).exploded


def _type(row: Mapping[str, Any], types: Sequence[str]) -> str:
    return types[int(row["index"]) % len(types)]
