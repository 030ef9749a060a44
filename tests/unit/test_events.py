# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is worth a line in the log when something has changed."""

from __future__ import annotations

from dataclasses import replace

from rdma_dp.core.model import Device, Nic, Picture, Pool, PoolConfig, Snapshot
from rdma_dp.events import Event, between_pictures, between_snapshots

A = Nic("0000:01:00.0", "mlx5_0", driver="mlx5_core", numa_node=0)
B = Nic("0000:02:00.0", "mlx5_1", driver="mlx5_core", numa_node=1)


def lines(events: object) -> list[tuple[str, str, str]]:
    return [(event.level, event.message, str(dict(event.fields).get("nic", ""))) for event in events]  # type: ignore[attr-defined]


def test_nothing_changed_says_nothing() -> None:
    snapshot = Snapshot((A, B), warnings=("a warning",))
    assert list(between_snapshots(snapshot, snapshot)) == []


def test_nics_that_come_and_go_are_named() -> None:
    assert lines(between_snapshots(Snapshot((A,)), Snapshot((B,)))) == [
        ("warning", "a NIC is gone", A.id),
        ("info", "found a NIC", B.id),
    ]


def test_a_reason_is_told_when_it_is_new_and_its_end_too() -> None:
    broken = replace(A, reasons=("the node is missing",))
    found = lines(between_snapshots(Snapshot((A,)), Snapshot((broken,))))
    assert found == [("warning", "a NIC can't be used: the node is missing", A.id)]
    assert lines(between_snapshots(Snapshot((broken,)), Snapshot((broken,)))) == []
    assert lines(between_snapshots(Snapshot((broken,)), Snapshot((A,)))) == [("info", "a NIC can be used again", A.id)]


def test_a_new_name_after_a_driver_reload_is_told() -> None:
    [event] = between_snapshots(Snapshot((A,)), Snapshot((replace(A, rdma_device="mlx5_5"),)))
    assert dict(event.fields) == {"nic": A.id, "rdma_device": "mlx5_5", "before": "mlx5_0"}


def test_warnings_of_the_machine_are_told_once() -> None:
    before, after = Snapshot(warnings=("one",)), Snapshot(warnings=("one", "two"))
    assert list(between_snapshots(before, after)) == [Event("warning", "two")]


def picture(healthy: int, unhealthy: int = 0, warnings: tuple[str, ...] = ()) -> Picture:
    devices = [Device(f"d-{number}", number < healthy, (A.id,)) for number in range(healthy + unhealthy)]
    return Picture((Pool(PoolConfig("hca"), tuple(devices), (A,), warnings),))


def test_a_resource_is_told_when_its_numbers_change() -> None:
    assert [event.message for event in between_pictures(Picture(), picture(3))] == ["the resource is offered"]
    assert list(between_pictures(picture(3), picture(3))) == []
    [event] = between_pictures(picture(3), picture(2, 1))
    assert event.level == "warning"
    assert dict(event.fields) == {"resource": "rdma/hca", "devices": 3, "healthy": 2, "nics": 1}
    [event] = between_pictures(picture(3), Picture())
    assert event.message == "the resource is not in the config any more"


def test_a_resource_without_nics_says_so_once() -> None:
    empty = Picture((Pool(PoolConfig("hca"), (), ()),))
    [event] = between_pictures(Picture(), empty)
    assert "it is not offered" in event.message
    assert list(between_pictures(empty, empty)) == []


def test_warnings_of_a_pool_carry_its_resource() -> None:
    [event] = between_pictures(picture(1), picture(1, warnings=("two pools take it",)))
    assert event == Event("warning", "two pools take it", (("resource", "rdma/hca"),))
