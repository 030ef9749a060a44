# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI addresses, and how they show in the names of devices."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
# systemd's and rdma-core's path names, numbers in decimal: enp157s0f1np1, ibp75s0v7, rdmap79s0, rocep189s0f0.
_PATH_NAME = re.compile(r"(?:en|ib|roce|rdma)p(\d+)s(\d+)(?:f(\d))?(?:np\d)?(?:v(\d+))?")


@dataclass(frozen=True)
class Address:
    """A PCI address, taken apart."""

    domain: str
    bus: int
    device: int
    function: int

    def __str__(self) -> str:
        return f"{self.domain}:{self.bus:02x}:{self.device:02x}.{self.function}"

    @property
    def sibling(self) -> Address:
        """The card's second function."""
        return replace(self, function=1)

    def virtual_function(self, index: int) -> Address:
        """The VF with this index, where the card numbers them right behind the PF."""
        number = self.device * 8 + self.function + 1 + index
        return replace(self, device=number // 8, function=number % 8)

    @property
    def bridge_path(self) -> str:
        """Where such a function usually hangs: below a port of the host bridge with the next lower round bus."""
        root = self.bus & 0xF0
        if self.bus == root:
            return f"pci{self.domain}:{root:02x}"
        return f"pci{self.domain}:{root:02x}/{self.domain}:{root:02x}:{(self.bus & 0x0F) + 1:02x}.0"


def parse(text: str) -> Address:
    """``0000:17:00.0`` taken apart. ValueError for anything else."""
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no PCI address: write it like 0000:17:00.0")
    domain, bus, device, function = match.groups()
    return Address(domain, int(bus, 16), int(device, 16), int(function))


def from_name(name: str) -> tuple[Address, Address | None] | None:
    """The function behind a path name, and the PF it is a VF of; None for other names."""
    match = _PATH_NAME.fullmatch(name)
    if not match:
        return None
    bus, device, function, vf = (int(part) if part else 0 for part in match.groups())
    owner = Address("0000", bus, device, function)
    return (owner.virtual_function(vf), owner) if match.group(4) else (owner, None)


def path_name(address: Address, prefix: str) -> str:
    """The path name without function and port: enp23s0, ibp65s0."""
    return f"{prefix}p{address.bus}s{address.device}"
