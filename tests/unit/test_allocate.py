# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What container gets what, as a pure function of the picture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rdma_dp.allocate import Index, Refusal, RefusedError
from rdma_dp.core.model import CharDevice, Device, Nic, Picture, Pool, PoolConfig


def char(kind: str, number: int, present: bool = True) -> CharDevice:
    return CharDevice(kind, f"{kind}{number}", f"231:{number}", present)


def nic(number: int, *reasons: str, pci: bool = True, **changes: object) -> Nic:
    address = f"0000:{number:02x}:00.0"
    plain = Nic(
        id=address if pci else f"rxe{number}",
        rdma_device=f"mlx5_{number}" if pci else f"rxe{number}",
        pci_address=address if pci else "",
        char_devices=(char("uverbs", number), char("umad", number), char("issm", number)),
        reasons=reasons,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def shared(*nics: Nic, count: int = 3, healthy: bool = True, name: str = "hca") -> Pool:
    usable = tuple(one.id for one in nics if one.usable) or tuple(one.id for one in nics)
    devices = tuple(Device(f"rdma.{name}-{number}", healthy, usable) for number in range(count))
    return Pool(PoolConfig(name), devices, nics)


def exclusive(*nics: Nic, down: tuple[str, ...] = (), name: str = "nic", nccl: bool = True) -> Pool:
    devices = tuple(Device(one.id, one.usable and one.id not in down, (one.id,)) for one in nics)
    return Pool(PoolConfig(name, mode="exclusive", nccl=nccl), devices, nics)


CM = CharDevice("rdma_cm", "rdma_cm", "10:58", True)


def refusal(picture: Picture, resource: str, *ids: str) -> tuple[Refusal, str]:
    with pytest.raises(RefusedError) as error:
        Index(picture).grant(resource, ids)
    return error.value.refusal, str(error.value)


def test_shared_opens_every_usable_nic_and_rdma_cm_once() -> None:
    picture = Picture((shared(nic(1), nic(2, "its node is missing"), nic(3)),), CM)
    grant = Index(picture).grant("rdma/hca", ["rdma.hca-0", "rdma.hca-2"])
    assert grant.nodes == ("uverbs1", "umad1", "issm1", "uverbs3", "umad3", "issm3", "rdma_cm")
    assert grant.env == {
        "RDMA_DP_RDMA_HCA_DEVICES": "mlx5_1,mlx5_3",
        "RDMA_DP_RDMA_HCA_PCI": "0000:01:00.0,0000:03:00.0",
    }


def test_nodes_that_are_not_there_are_left_out() -> None:
    missing = nic(1, char_devices=(char("uverbs", 1), char("umad", 1, present=False)))
    for cm in (None, replace(CM, present=False)):
        assert Index(Picture((shared(missing),), cm)).grant("rdma/hca", ["rdma.hca-0"]).nodes == ("uverbs1",)


def test_exclusive_opens_the_nics_of_the_ids_in_the_pools_order() -> None:
    picture = Picture((exclusive(nic(1), nic(2), nic(3)),), CM)
    grant = Index(picture).grant("rdma/nic", ["0000:03:00.0", "0000:01:00.0"])
    assert [one.rdma_device for one in grant.nics] == ["mlx5_1", "mlx5_3"]
    assert grant.env["NCCL_IB_HCA"] == "=mlx5_1,mlx5_3"


@pytest.mark.parametrize("pool", [shared(nic(1)), exclusive(nic(1), nccl=False, name="hca")])
def test_nccl_variable_only_in_exclusive_mode_and_only_when_wanted(pool: Pool) -> None:
    grant = Index(Picture((pool,))).grant("rdma/hca", [pool.devices[0].id])
    assert "NCCL_IB_HCA" not in grant.env


def test_nic_without_pci_function_has_no_place_in_the_pci_list() -> None:
    grant = Index(Picture((shared(nic(1), nic(2, pci=False)),))).grant("rdma/hca", ["rdma.hca-1"])
    assert grant.env["RDMA_DP_RDMA_HCA_DEVICES"] == "mlx5_1,rxe2"
    assert grant.env["RDMA_DP_RDMA_HCA_PCI"] == "0000:01:00.0"


TWO_POOLS = Picture((shared(nic(1)), exclusive(nic(2), nic(3, "its node is missing"), nic(4), down=("0000:04:00.0",))))


@pytest.mark.parametrize(
    ("resource", "ids", "kind", "parts"),
    [
        ("rdma/hca", [], Refusal.INVALID, ["names no device"]),
        ("rdma/hca", ["rdma.hca-0"] * 2, Refusal.INVALID, ["'rdma.hca-0'", "twice"]),
        ("rdma/hca", ["rdma.hca-3"], Refusal.UNKNOWN, ["'rdma.hca-3'", "'rdma.hca-0' to 'rdma.hca-2'"]),
        ("rdma/hca", ["rdma.hca-0", ""], Refusal.UNKNOWN, ["''"]),
        ("rdma/hca", ["0000:02:00.0"], Refusal.INVALID, ["'0000:02:00.0' belongs to rdma/nic"]),
        ("rdma/nic", ["rdma.hca-0"], Refusal.INVALID, ["'rdma.hca-0' belongs to rdma/hca"]),
        ("rdma/nic", ["0000:03:00.0"], Refusal.UNUSABLE, ["Unhealthy", "mlx5_3", "its node is missing"]),
        ("rdma/nic", ["0000:04:00.0"], Refusal.UNUSABLE, ["Unhealthy", "no port is active", "0000:04:00.0"]),
        ("rdma/nic", ["0000:02:00.0", "0000:04:00.0"], Refusal.UNUSABLE, ["'0000:04:00.0'"]),
        ("rdma/gone", ["rdma.hca-0"], Refusal.UNKNOWN, ["not offered"]),
    ],
)
def test_refusals_name_resource_id_and_reason(resource: str, ids: list[str], kind: Refusal, parts: list[str]) -> None:
    found, text = refusal(TWO_POOLS, resource, *ids)
    assert found is kind
    assert resource in text
    for part in parts:
        assert part in text
    assert "\n" not in text


def test_devices_that_say_healthy_but_have_no_usable_nic_are_refused() -> None:
    pool = shared(nic(1, "its node is missing"))
    found, text = refusal(Picture((pool,)), "rdma/hca", "rdma.hca-0")
    assert found is Refusal.UNUSABLE
    assert "mlx5_1): its node is missing" in text


def test_many_reasons_are_cut_short() -> None:
    pool = shared(*(nic(number, "its node is missing") for number in range(8)), healthy=False)
    _unused, text = refusal(Picture((pool,)), "rdma/hca", "rdma.hca-0")
    assert text.count("its node is missing") == 3
    assert "and 5 more" in text


def test_empty_pool_has_no_ids() -> None:
    found, text = refusal(Picture((shared(count=0),)), "rdma/hca", "rdma.hca-0")
    assert found is Refusal.UNKNOWN
    assert "none at present" in text
