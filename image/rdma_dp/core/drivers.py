# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel modules RDMA needs on which PCI functions."""

from __future__ import annotations

from .pci import NetworkFunction

NVIDIA = "15b3"

# PCI driver to the module that makes RDMA devices of its functions. Drivers that do both (efa, erdma) are not in it.
RDMA_MODULES = {
    "mlx5_core": "mlx5_ib",
    "mlx4_core": "mlx4_ib",
    "bnxt_en": "bnxt_re",
    "cxgb4": "iw_cxgb4",
    "hns3": "hns_roce_hw_v2",
    "i40e": "irdma",
    "ice": "irdma",
    "ionic": "ionic_rdma",
    "mana": "mana_ib",
    "qede": "qedr",
}
# Of these, the ones on whose NICs RDMA is expected wherever they stand; the others drive plain Ethernet NICs too.
RDMA_FIRST = ("mlx5_core", "mlx4_core")

_CONNECTX_3 = range(0x1000, 0x1011)  # and ConnectX-2: PCI IDs that mlx4_core binds to
_SINGLE_DRIVER = {("1ded", "107f"): "erdma", **{("1d0f", device): "efa" for device in ("efa0", "efa1", "efa2", "efa3")}}


def driver_of(function: NetworkFunction) -> str:
    """The PCI driver that an RDMA NIC's function needs; "" for what its PCI IDs alone do not show to be one."""
    if function.vendor == NVIDIA and function.device_id:
        return "mlx4_core" if int(function.device_id, 16) in _CONNECTX_3 else "mlx5_core"
    return _SINGLE_DRIVER.get((function.vendor, function.device_id), "")


def is_rdma_hardware(function: NetworkFunction) -> bool:
    """True for a function that has an RDMA device, or would have one with its drivers loaded."""
    return function.rdma or bool(driver_of(function))
