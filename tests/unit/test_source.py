# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Config and NICs as they change, and the picture that comes of it, in virtual time on a machine of plain values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rdma_dp.core import pools
from rdma_dp.core.model import CharDevice, Config, HealthConfig, Nic, PoolConfig, Port, Snapshot
from rdma_dp.logs import Log
from rdma_dp.metrics import Metrics
from rdma_dp.source import ConfigError, Machine, Source
from rdma_dp.sysfs_look import Look
from rdma_dp.watched_file import WatchedFile
from tests.unit.virtual_time import now, run

POOL = PoolConfig("nic", mode="exclusive")
CONFIG = Config((POOL,), periodic_update_interval=60, health=HealthConfig(1.0, fail_after=2, recover_after=5))


class Worker:
    """Runs at once, or takes its time."""

    duration = 0.0

    async def run(self, function: Callable[[], Any]) -> Any:
        await asyncio.sleep(self.duration)
        return function()


class World:
    """A machine that a test changes by assignment."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.write_text("1")
        self.config: Config | ConfigError = CONFIG
        self.states = {1: "ACTIVE", 2: "ACTIVE"}  # NIC number -> port state
        self.scans: list[float] = []
        self.scan_errors: list[OSError] = []
        self.worker = Worker()
        machine = Machine(self._load, self._scan, self._look, pools.compute)
        self.metrics = Metrics()
        self.source = Source(machine, WatchedFile(file), self.worker, self.metrics, Log())  # type: ignore[arg-type]

    def edit(self, config: Config | ConfigError) -> None:
        self.config = config
        self.file.write_text(self.file.read_text() + "1")

    def healthy(self) -> list[str]:
        return [device.id for pool in self.source.pictures.value.pools for device in pool.devices if device.healthy]

    def all(self) -> list[str]:
        return [device.id for pool in self.source.pictures.value.pools for device in pool.devices]

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def _load(self) -> Config:
        if isinstance(self.config, ConfigError):
            raise self.config
        return self.config

    def _scan(self) -> Snapshot:
        self.scans.append(now())
        for error in self.scan_errors:
            raise error
        return Snapshot(tuple(nic(number, state) for number, state in sorted(self.states.items())))

    def _look(self) -> Look:
        return Look(tuple((f"mlx5_{number}", ((1, state),)) for number, state in sorted(self.states.items())))


def nic(number: int, state: str) -> Nic:
    return Nic(
        id=str(number),
        rdma_device=f"mlx5_{number}",
        function="pf",
        ports=(Port(1, state, "LinkUp", "ether", "400 Gb/sec (4X NDR)"),),
        char_devices=(CharDevice("uverbs", f"uverbs{number}", f"231:{number}", True),),
    )


@asynccontextmanager
async def followed(world: World) -> AsyncIterator[World]:
    tasks = [asyncio.create_task(world.source.watch_config()), asyncio.create_task(world.source.watch_nics())]
    await asyncio.sleep(0.01)
    try:
        yield world
    finally:
        for task in tasks:
            assert not task.done(), task.exception()
            task.cancel()


@pytest.fixture
def file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    caplog.set_level(logging.INFO, logger="rdma_dp")
    return tmp_path / "config.json"


def test_scans_at_the_start_and_then_once_an_interval(file: Path) -> None:
    async def scenario() -> World:
        async with followed(World(file)) as world:
            assert world.healthy() == ["1", "2"]
            await asyncio.sleep(185)
        return world

    assert run(scenario()).scans == pytest.approx([0, 60, 120, 180], abs=0.1)


def test_interval_zero_switches_the_periodic_scan_off(file: Path) -> None:
    async def scenario() -> World:
        world = World(file)
        world.edit(replace(CONFIG, periodic_update_interval=0))
        async with followed(world):
            await asyncio.sleep(10_000)
        return world

    assert len(run(scenario()).scans) == 1


def test_a_nic_that_goes_is_unhealthy_within_a_look_and_back_as_fast(file: Path) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            del world.states[2]
            await asyncio.sleep(1.1)
            assert (world.healthy(), world.all()) == (["1"], ["1", "2"])
            world.states[2] = "ACTIVE"
            await asyncio.sleep(1.1)
            assert world.healthy() == ["1", "2"]

    run(scenario())


def test_a_port_that_goes_down_needs_two_looks_and_five_to_recover(file: Path) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            world.states[1] = "DOWN"
            await asyncio.sleep(1.5)
            assert world.healthy() == ["1", "2"]
            await asyncio.sleep(1)
            assert world.healthy() == ["2"]
            world.states[1] = "ACTIVE"
            await asyncio.sleep(4)
            assert world.healthy() == ["2"]
            await asyncio.sleep(1)
            assert world.healthy() == ["1", "2"]

    run(scenario())


def test_the_picture_has_the_newest_port_state_whatever_the_verdict(file: Path) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            world.states[1] = "DOWN"
            await asyncio.sleep(1.1)
            [pool] = world.source.pictures.value.pools
            assert [port.state for port in pool.nics[0].ports] == ["DOWN"]
            assert world.healthy() == ["1", "2"]

    run(scenario())


def test_a_flapping_port_changes_nothing_for_kubelet(file: Path) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            for _unused in range(50):
                world.states[1] = "DOWN" if world.states[1] == "ACTIVE" else "ACTIVE"
                await asyncio.sleep(1)
                assert world.healthy() == ["1", "2"]

    run(scenario())


def test_a_rescan_that_is_asked_for_begins_after_the_question(file: Path) -> None:
    async def scenario() -> None:
        world = World(file)
        world.worker.duration = 0.2
        async with followed(world):
            await asyncio.sleep(0.3)  # in the middle of the first scan
            asked = now()
            await world.source.rescan()
            assert world.scans[-1] > asked
            assert now() - asked < 1

    run(scenario())


def test_nics_that_cannot_be_read_keep_what_was_found(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            world.scan_errors = [FileNotFoundError(2, "no sysfs is mounted there", "/sys")]
            world.states.clear()
            await asyncio.sleep(30)
            assert world.all() == ["1", "2"]
            assert world.sample("rdma_dp_scans_total", result="error") > 1
            world.scan_errors, world.states = [], {1: "ACTIVE"}
            await asyncio.sleep(2)
            assert world.healthy() == ["1"]

    run(scenario())
    assert sum("can't be read" in record.message for record in caplog.records) == 1


def test_a_driver_that_hangs_is_named(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        world = World(file)
        async with followed(world):
            world.worker.duration = 100
            await asyncio.sleep(50)
            world.edit(replace(CONFIG, pools=(PoolConfig("hca"),)))  # the config is followed all the same
            await asyncio.sleep(1.1)
            assert [pool.config.resource for pool in world.source.pictures.value.pools] == ["rdma/hca"]

    run(scenario())
    assert sum("takes longer than 10 s" in record.message for record in caplog.records) == 1


def test_a_new_config_is_in_force_within_a_second(file: Path) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            before = world.source.config_hash
            world.edit(replace(CONFIG, pools=(POOL, PoolConfig("hca", rdma_hca_max=2))))
            await asyncio.sleep(1.1)
            assert [pool.config.resource for pool in world.source.pictures.value.pools] == ["rdma/nic", "rdma/hca"]
            assert world.source.config_hash != before
            assert world.sample("rdma_dp_config_info", hash=before) is None
            assert world.sample("rdma_dp_config_info", hash=world.source.config_hash) == 1
            assert world.sample("rdma_dp_config_reloads_total", result="ok") == 1

    run(scenario())


def test_a_bad_config_changes_nothing_and_is_reported_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            picture, digest = world.source.pictures.value, world.source.config_hash
            world.edit(ConfigError(["configList[0].mode: is wrong", "configList[1]: too"]))
            await asyncio.sleep(30)
            assert world.source.pictures.value is picture
            assert world.source.config_hash == digest
            assert world.sample("rdma_dp_config_reloads_total", result="error") == 1

    run(scenario())
    messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert messages == [
        "the config file can't be used, the last good config stays in force",
        "config: configList[0].mode: is wrong",
        "config: configList[1]: too",
    ]


def test_a_config_that_is_rewritten_without_a_change_is_not_news(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with followed(World(file)) as world:
            caplog.clear()
            picture = world.source.pictures.value
            world.edit(CONFIG)
            await asyncio.sleep(5)
            assert world.source.pictures.value is picture

    run(scenario())
    assert not caplog.records


def test_a_shorter_poll_interval_is_followed_at_once(file: Path) -> None:
    async def scenario() -> None:
        world = World(file)
        world.edit(replace(CONFIG, health=HealthConfig(3600.0, 1, 1)))
        async with followed(world):
            await asyncio.sleep(5)
            world.edit(replace(CONFIG, health=HealthConfig(0.5, 1, 1)))
            await asyncio.sleep(1.1)
            world.states[1] = "DOWN"
            await asyncio.sleep(0.6)
            assert world.healthy() == ["2"]

    run(scenario())


def test_a_bad_config_at_the_start_is_raised(file: Path) -> None:
    async def scenario() -> None:
        world = World(file)
        world.config = ConfigError(["x"])
        with pytest.raises(ConfigError):
            Source(
                Machine(world._load, world._scan, world._look, pools.compute),
                WatchedFile(file),
                world.worker,
                Metrics(),
                Log(),
            )  # type: ignore[arg-type]

    run(scenario())
