# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a pool's selectors take a NIC; and if not, which one refuses it.

AND between fields, OR inside one; an empty field does not filter. The order of the tests is that of the config file,
which is that of today's shared device plugin for the fields that it has.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Callable, Optional, Sequence, Tuple

from .model import Nic, Selectors

# RDMA drivers and the drivers of the PCI functions they sit on. `rdma link` and lsmod show the first kind, sysfs and
# lspci the second; whoever writes the first means NICs of the second. From the kernel's drivers/infiniband/hw.
RDMA_DRIVERS = {
    "mlx5_ib": ("mlx5_core",),
    "mlx4_ib": ("mlx4_core",),
    "irdma": ("ice", "i40e", "idpf"),
    "bnxt_re": ("bnxt_en",),
    "iw_cxgb4": ("cxgb4",),
    "qedr": ("qede",),
    "hns_roce_hw_v2": ("hns3",),
    "mana_ib": ("mana",),
    "ionic_rdma": ("ionic",),
}
DEFAULT_FUNCTIONS = ("pf", "sf")
_WILDCARDS = frozenset("*?[")


def refusal(nic: Nic, selectors: Selectors) -> Optional[str]:
    """None when the NIC is taken, else the first selector that refuses it: ``vendors: 8086 is not one of 15b3``.

    A NIC with ``default_excluded`` (a bridge of an NVSwitch, the uplink of a VM) is taken only by a pool that names it:
    its PCI address, one of its netdevs, or its RDMA device without wildcards. Patterns, vendors and device IDs do not
    name it, as these NICs share them with ordinary ones. Where ``functions`` is not given, a VF too is taken by a pool
    that names it, as today's plugin takes it. A NIC without PCI function counts as a PF.
    """
    found = _refused_by_a_selector(nic, selectors)
    if found is None and not selectors.functions and not _passes_default_functions(nic, selectors):
        return f"functions: {nic.function} is not one of {', '.join(DEFAULT_FUNCTIONS)}, the default"
    if found is None and nic.default_excluded and not _named(nic, selectors):
        return f"{nic.default_excluded}; to take it, name it in rdmaDevices, pciAddresses or ifNames"
    return found


def only_by_default(nic: Nic, selectors: Selectors) -> bool:
    """True when nothing but the default of ``functions`` refuses the NIC: a VF that the rest selects."""
    refused_otherwise = _refused_by_a_selector(nic, selectors) is not None or nic.default_excluded
    return not (refused_otherwise or selectors.functions or _passes_default_functions(nic, selectors))


def _passes_default_functions(nic: Nic, selectors: Selectors) -> bool:
    return not nic.function or nic.function in DEFAULT_FUNCTIONS or _named(nic, selectors)


def _refused_by_a_selector(nic: Nic, selectors: Selectors) -> Optional[str]:
    tests: Sequence[Tuple[str, Tuple[str, ...], Tuple[str, ...], Callable[[str, str], bool]]] = (
        ("vendors", _known(nic.vendor), selectors.vendors, str.__eq__),
        ("deviceIDs", _known(nic.device_id), selectors.device_ids, str.__eq__),
        ("drivers", _known(nic.driver), selectors.drivers, _same_driver),
        ("ifNames", nic.netdevs, selectors.if_names, str.__eq__),
        ("linkTypes", link_types(nic), selectors.link_types, str.__eq__),
        ("rdmaDevices", (nic.rdma_device,), selectors.rdma_devices, fnmatchcase),
        ("pciAddresses", _known(nic.pci_address), selectors.pci_addresses, str.__eq__),
        ("functions", _known(nic.function), _functions(nic, selectors), str.__eq__),
    )
    for name, values, wanted, matches in tests:
        if wanted and not any(matches(value, pattern) for value in values for pattern in wanted):
            return f"{name}: {_not_one_of(values, wanted)}"
    return None


def _functions(nic: Nic, selectors: Selectors) -> Tuple[str, ...]:
    """What is wanted of this NIC; nothing of one without PCI function, where PFs are welcome."""
    return () if not nic.function and "pf" in selectors.functions else selectors.functions


def link_types(nic: Nic) -> Tuple[str, ...]:
    """Of all its ports: a NIC can have an Ethernet and an InfiniBand port on one function."""
    return tuple(dict.fromkeys(port.link_layer for port in nic.ports if port.link_layer))


def _named(nic: Nic, selectors: Selectors) -> bool:
    """What matches one of these fields at all names the NIC; only patterns for RDMA devices may match by accident."""
    exact = (pattern for pattern in selectors.rdma_devices if not _WILDCARDS & set(pattern))
    return bool(selectors.pci_addresses or selectors.if_names) or nic.rdma_device in exact


def _same_driver(driver: str, wanted: str) -> bool:
    return driver == wanted or driver in RDMA_DRIVERS.get(wanted, ())


def _known(value: str) -> Tuple[str, ...]:
    return (value,) if value else ()


def _not_one_of(values: Sequence[str], wanted: Sequence[str]) -> str:
    options = ", ".join(wanted)
    if len(values) == 1:
        return f"{values[0]} is not one of {options}"
    return f"none of {', '.join(values)} is one of {options}" if values else f"the NIC has none; wanted is {options}"
