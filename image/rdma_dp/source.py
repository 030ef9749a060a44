# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the picture comes from: config file and sysfs, followed as they change, meet here and nowhere else.

Two tasks, one per input. Each replaces its own input and then has the picture computed anew; everybody else only reads
``pictures``. Reading is passed in, so that a test brings its own machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from rdma_dp import events, health
from rdma_dp.core.config import digest
from rdma_dp.core.model import Config, Picture, Snapshot
from rdma_dp.latest import Latest, happens
from rdma_dp.logs import Log
from rdma_dp.metrics import Metrics
from rdma_dp.sysfs_look import Look
from rdma_dp.watched_file import WatchedFile
from rdma_dp.worker import Worker

CONFIG_POLL = 1.0  # s
_SLOW = 10.0  # s; a scan takes some tens of milliseconds

T = TypeVar("T")


class ConfigError(Exception):
    """The config file can't be used. ``unreadable`` tells a file that can't be read from one with mistakes in it."""

    def __init__(self, problems: Iterable[str], unreadable: bool = False) -> None:
        self.problems = tuple(problems)
        self.unreadable = unreadable
        super().__init__("; ".join(self.problems))

    def tell(self, log: Log) -> None:
        """One line per mistake."""
        for problem in self.problems:
            log.error(problem if self.unreadable else f"config: {problem}")


@dataclass(frozen=True)
class Machine:
    """How config and hardware are read."""

    load: Callable[[], Config]  # raises ConfigError
    scan: Callable[[], Snapshot]  # raises OSError
    look: Callable[[], Look]
    compute: Callable[[Config, Snapshot, frozenset[str], Picture], Picture]  # the last: the picture before


class Source:
    """Owns config, snapshot and verdicts, and publishes the picture made of them."""

    def __init__(self, machine: Machine, config_file: WatchedFile, worker: Worker, metrics: Metrics, log: Log) -> None:
        """Reads the config. Raises ConfigError: a plugin must not start on a bad one, only keep running."""
        config_file.changed()
        self.config = machine.load()
        self.config_hash = digest(self.config)
        self.pictures: Latest[Picture] = Latest(Picture())
        self.scanned = False
        self._machine = machine
        self._file = config_file
        self._worker = worker
        self._metrics = metrics
        self._log = log
        self._snapshot = Snapshot()
        self._look: Look | None = None  # as it was just before the last scan
        self._verdicts: dict[str, health.Verdict] = {}
        self._reload = asyncio.Event()
        self._wake = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._scan_problem = ""
        metrics.config_is(self.config_hash)
        self._tell_not_yet()

    # --- the config ---------------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Reads the config at once, changed or not (SIGHUP)."""
        self._reload.set()

    async def watch_config(self) -> None:
        """Follows the config file. A bad new config is reported and counted, and the old one stays in force."""
        while True:
            asked = await happens(self._reload, within=CONFIG_POLL)
            self._reload.clear()
            if self._file.changed() or asked:
                self._read_config(asked)

    def _read_config(self, asked: bool) -> None:
        try:
            config = self._machine.load()
        except ConfigError as error:
            self._metrics.reloaded("error")
            self._log.error(
                "the config file can't be used, the last good config stays in force",
                config=self._file.path,
                in_force=self.config_hash,
            )
            error.tell(self._log)
            return
        self._metrics.reloaded("ok")
        changed = config != self.config
        self.config, self.config_hash = config, digest(config)
        self._metrics.config_is(self.config_hash)
        if changed:
            self._log.info("applied the new config", config=self._file.path, hash=self.config_hash)
            self._tell_not_yet()
            self._compute()
            self._wake.set()  # intervals may be other ones now
        elif asked:
            self._log.info(
                "read the config again; nothing in it has changed", config=self._file.path, hash=self.config_hash
            )

    def _tell_not_yet(self) -> None:
        for pool in self.config.pools:
            if pool.cdi:
                text = "cdi: true is not used by this version: device nodes are handed out directly"
                self._log.warning(text, resource=pool.resource)

    # --- the machine --------------------------------------------------------------------------------------------------

    async def rescan(self) -> None:
        """Returns when a scan that began after this call is in the picture."""
        scanned = asyncio.get_running_loop().create_future()
        self._waiting.append(scanned)
        self._wake.set()
        await scanned

    async def watch_nics(self) -> None:
        """Looks every ``health.pollInterval``, scans when two looks differ, and every ``periodicUpdateInterval``."""
        clock = asyncio.get_running_loop().time
        scanned_at: float | None = None
        while True:
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                look = await self._patiently(self._machine.look)
                due = scanned_at is None or self._due(clock() - scanned_at)
                # Judged before the scan that a changed look causes, by the NICs that are known: a scan does not look
                # more often, and so does not shorten the row of looks that a verdict needs.
                if waiting or due or look != self._look:
                    await self._scan(look)
                    scanned_at = clock()
                self._judge(look)
                self._compute()
            finally:
                for future in waiting:
                    if not future.done():
                        future.set_result(None)
            await happens(self._wake, within=self.config.health.poll_interval)

    def _due(self, elapsed: float) -> bool:
        interval = self.config.periodic_update_interval
        return bool(interval) and elapsed >= interval

    async def _scan(self, look: Look) -> None:
        try:
            snapshot = await self._patiently(self._machine.scan)
        except OSError as error:
            self._metrics.scanned("error")
            if str(error) != self._scan_problem:
                self._log.error("the NICs can't be read; what was found before stays in force", error=error)
            self._scan_problem = str(error)
            return
        self._scan_problem = ""
        self._metrics.scanned("ok", at=time.time())
        self._tell(events.between_snapshots(self._snapshot, snapshot))
        # The look from before the scan: what changes while it runs makes the next look differ.
        self._snapshot, self._look = snapshot, look
        self.scanned = True

    async def _patiently(self, read: Callable[[], T]) -> T:
        """What the worker reads. A driver that hangs is not waited for in silence, but there is no way to give up."""
        reading = asyncio.ensure_future(self._worker.run(read))
        try:
            done, _unused = await asyncio.wait([reading], timeout=_SLOW)
            if not done:
                self._log.warning(
                    f"reading the NICs takes longer than {_SLOW:g} s; does a driver or a NIC's firmware hang?"
                )
            return await reading
        finally:
            reading.cancel()

    def _judge(self, look: Look) -> None:
        states = {nic.id: look.states(nic.rdma_device) for nic in self._snapshot.nics}
        looks = {nic: health.any_active(ports) for nic, ports in states.items() if ports is not None}
        before, self._verdicts = self._verdicts, health.judge(self._verdicts, looks, self.config.health)
        for nic, verdict in self._verdicts.items():
            if nic in before and before[nic].up != verdict.up:
                tell = self._log.info if verdict.up else self._log.warning
                tell("a NIC's port is active again" if verdict.up else "no port of a NIC is active", nic=nic)

    def _compute(self) -> None:
        if not self.scanned:
            return
        down = frozenset(nic for nic, verdict in self._verdicts.items() if not verdict.up)
        before = self.pictures.value
        picture = self._machine.compute(self.config, self._snapshot, down, before)
        if self.pictures.publish(picture):
            self._tell(events.between_pictures(before, picture))

    def _tell(self, happened: Iterable[events.Event]) -> None:
        for event in happened:
            getattr(self._log, event.level)(event.message, **dict(event.fields))
