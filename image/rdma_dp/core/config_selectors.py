# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that selectors take: what people copy from sysfs, lspci and ip, and what it is normalised to.

Normalised where the meaning is certain (``0x15B3`` is ``15b3``, a driver's path is its name), refused with a hint where
a value could never match a NIC.
"""

from __future__ import annotations

import re

from .config_values import Reader, Refused, as_text, choice, list_of
from .problems import show

# What `ip link`, `ibv_devinfo` and sysfs' link_layer call the two link types.
LINK_TYPES = {
    "ethernet": "ether",
    "eth": "ether",
    "link/ether": "ether",
    "ib": "infiniband",
    "link/infiniband": "infiniband",
}
FUNCTIONS = ("pf", "vf", "sf")

_HEX_ID = re.compile(r"(?:0x)?([0-9a-f]{4})")
_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])")
_DRIVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LONGEST_NETDEV = 15  # IFNAMSIZ of linux/if.h, less the zero byte; only an altname can be longer
_LONGEST_PATTERN = 127
_UNPRINTABLE = r"\u0000-\u001f\u007f-\u00a0"  # the part of it that a schema can name
# As fnmatch reads it: a bracket may follow the opening one (and its "!") without closing it.
_SHELL_PATTERN = r"(?:[^\[/\s]|\[(?:![^/\s]|[^!/\s])[^\]/\s]*\])+"


def hex_id(file: str, example: str) -> Reader:
    """Four hex digits of the PCI configuration space; ``file`` is where sysfs shows them."""

    def read(value: object) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            raise Refused(f"{show(value)} is a number, not text", _quoted_id(value))
        found = _name(value)
        match = _HEX_ID.fullmatch(found.lower())
        if not match:
            raise Refused(f"{show(found)} is not a PCI ID", f'write four hex digits, as in {file}: "{example}"')
        return match.group(1)

    return Reader(read, {"type": "string", "pattern": "^[0-9a-f]{4}$"})


def _quoted_id(value: float) -> str:
    """What an unquoted ID probably was: YAML reads 1017 as a number, and 0x15b3 as 5555."""
    if isinstance(value, float) or not 0 <= value <= 0xFFFF:
        return "put the ID in quotes, as four hex digits"
    decimal, hexadecimal = f"{value:04d}", f"{value:04x}"
    if len(decimal) > 4:
        return f'put it in quotes: "{hexadecimal}" if the file says 0x{hexadecimal}'
    # There are hardly any IDs below 1000, so a small number was not written in hexadecimal.
    other = f', or "{hexadecimal}" if the file says 0x{hexadecimal}' if value >= 0x1000 else ""
    return f'put it in quotes: "{decimal}"' + other


def pci_address() -> Reader:
    """``0000:17:00.0``; without a domain it is 0000, as lspci leaves it out."""

    def read(value: object) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            hint = 'YAML takes 0000:17:00.0 for a number: put the address in quotes, "0000:17:00.0"'
            raise Refused(f"{show(value)} is a number, not text", hint)
        found = _name(value, "/sys/bus/pci/devices/")
        match = _PCI_ADDRESS.fullmatch(found.lower())
        if not match:
            hint = 'write it as in /sys/bus/pci/devices: "0000:17:00.0"'
            raise Refused(f"{show(found)} is not a PCI address", hint)
        return f"{match.group(1) or '0000'}:{match.group(2)}"

    return Reader(read, {"type": "string", "pattern": r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$"})


def driver() -> Reader:
    """A kernel driver's name; a path to it, as ``readlink`` prints it, is cut to its last part."""

    def read(value: object) -> str:
        found = _name(value)
        name = found.rstrip("/").rpartition("/")[2] if "drivers/" in found else found
        if not _DRIVER.fullmatch(name):
            hint = "write its name, for example mlx5_core: the end of what readlink shows for .../device/driver"
            raise Refused(f"{show(found)} is not the name of a driver", hint)
        return name

    return Reader(read, {"type": "string", "pattern": f"^{_DRIVER.pattern}$"})


def netdev() -> Reader:
    """A network interface's name, exactly. sysfs knows no altnames, so none can be matched."""

    def read(value: object) -> str:
        found = _name(value, "/sys/class/net/")
        if any(char in found for char in "*?["):
            hint = "interfaces are named exactly; patterns are possible in rdmaDevices"
            raise Refused(f"{show(found)} is a pattern", hint)
        if "/" in found:
            hint = "write it as ip link shows it, for example bond0"
            raise Refused(f"{show(found)} is not the name of a network interface", hint)
        if len(found) > _LONGEST_NETDEV:
            message = (
                f"{show(found)} has {len(found)} characters, so it is an altname, and sysfs does not show altnames"
            )
            hint = "write the name that ip link shows for it, of at most 15 characters, or use pciAddresses"
            raise Refused(message, hint)
        return found

    schema = {"type": "string", "maxLength": _LONGEST_NETDEV, "pattern": rf"^[^/*?\[\s{_UNPRINTABLE}]+$"}
    return Reader(read, schema)


def rdma_device() -> Reader:
    """An RDMA device's name, or a shell pattern for several."""

    def read(value: object) -> str:
        found = _name(value, "/sys/class/infiniband/")
        if "/" in found or len(found) > _LONGEST_PATTERN:
            hint = "write it as in /sys/class/infiniband: mlx5_0, or mlx5_bond_* for several"
            raise Refused(f"{show(found)} is not the name of an RDMA device", hint)
        if not re.fullmatch(_SHELL_PATTERN, found):
            raise Refused(f"{show(found)} has a [ without its ]", "write for example mlx5_[0-3]")
        return found

    pattern = rf"^(?![\s\S]*[{_UNPRINTABLE}]){_SHELL_PATTERN}$"
    return Reader(read, {"type": "string", "maxLength": _LONGEST_PATTERN, "pattern": pattern})


def _name(value: object, directory: str = "") -> str:
    """A name as the kernel has them: no white space inside; around it, it is dropped, as is ``directory`` in front."""
    found = as_text(value).strip()
    if directory and found.startswith(directory):
        found = found[len(directory) :].strip("/")
    if not found:
        raise Refused("is empty", "fill it in, or leave the entry out")
    if any(char.isspace() for char in found):
        raise Refused(f"{show(found)} has white space in it", "write one name per entry")
    if not found.isprintable():
        raise Refused(f"{show(found)} has unprintable characters in it", "no name has such characters")
    return found


# In the order in which NICs are tested against them; the key is the one in the file.
READERS = {
    "vendors": list_of(hex_id("/sys/class/infiniband/<device>/device/vendor", "15b3"), "15b3"),
    "deviceIDs": list_of(hex_id("/sys/class/infiniband/<device>/device/device", "1021"), "1021"),
    "drivers": list_of(driver(), "mlx5_core"),
    "ifNames": list_of(netdev(), "bond0"),
    "linkTypes": list_of(choice(("ether", "infiniband"), LINK_TYPES), "ether"),
    "rdmaDevices": list_of(rdma_device(), "mlx5_bond_*"),
    "pciAddresses": list_of(pci_address(), "0000:17:00.0"),
    "functions": list_of(choice(FUNCTIONS), "pf", order=FUNCTIONS),
}
