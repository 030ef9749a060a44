# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running plugin: which parts there are and how they are connected; they do not know each other."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from rdma_dp import kubelet_dir, sockets, tasks
from rdma_dp.allocator import Allocator
from rdma_dp.core.model import Picture
from rdma_dp.endpoint import Endpoint
from rdma_dp.kubelet_client import Kubelet
from rdma_dp.latest import Latest
from rdma_dp.metrics import Metrics
from rdma_dp.session import EndpointError, Session
from rdma_dp.sessions import Sessions
from rdma_dp.source import Machine, Source
from rdma_dp.version import VERSION
from rdma_dp.watched_file import WatchedFile
from rdma_dp.web import Pages, WebServer
from rdma_dp.worker import Worker

if TYPE_CHECKING:
    from rdma_dp.logs import Log
    from rdma_dp.options import ServeOptions

_STOP_TASKS = 0.3  # s


class Plugin:
    """Built, then run once."""

    def __init__(self, options: ServeOptions, machine: Machine, log: Log) -> None:
        """Reads the config and binds the HTTP address; must be called on the running loop.

        Raises ConfigError, SocketPathError, ListenError.
        """
        self._options = options
        self._log = log
        self._metrics = Metrics()
        self._names = sockets.SocketNames(options.kubelet_dir)
        self._listing = Latest(kubelet_dir.look(options.kubelet_dir))
        self._kubelet = Kubelet(options.kubelet_dir, self._listing)
        self._source = Source(machine, WatchedFile(options.config), Worker("sysfs"), self._metrics, log)
        self._allocator = Allocator(
            self._source.pictures,
            self._source.rescan,
            sysfs=options.sysfs,
            dev=options.dev,
            metrics=self._metrics,
            log=log,
        )
        self._sessions = Sessions(self._source.pictures, self._session, log=log, crashed=self._metrics.crashed)
        self._metrics.read_from(lambda: self._source.pictures.value, self._connected)
        self._web: WebServer | None = None
        if options.listen:
            pages = Pages(self._health, self._ready, self._status, self._metrics.text)
            self._web = WebServer(options.listen, pages, asyncio.get_running_loop(), log)

    def reload(self) -> None:
        """Reads the config at once (SIGHUP)."""
        self._source.reload()

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until ``stop`` is set; returns with all sockets gone."""
        if self._web:
            self._web.start()

        def keep(name: str, run: tasks.Run) -> asyncio.Task[None]:
            return tasks.keep_running(name, run, log=self._log, crashed=self._metrics.crashed)

        directory = self._options.kubelet_dir
        running = [
            keep("kubelet directory", lambda: kubelet_dir.watch(directory, self._listing, self._log)),
            keep("config", self._source.watch_config),
            keep("nics", self._source.watch_nics),
            keep("sessions", self._sessions.run),
            asyncio.create_task(sockets.remove_leftovers(directory, self._mine, self._log), name="leftovers"),
        ]
        try:
            await stop.wait()
        finally:
            # First the one that starts sessions, then the sessions.
            await tasks.cancel(running, within=_STOP_TASKS)
            await self._sessions.stop()
            if self._web:
                self._web.stop()

    def _session(self, resource: str) -> Session:
        self._metrics.expect(resource)

        async def listen() -> Endpoint:
            path = self._options.kubelet_dir / self._names.fresh(resource)
            endpoint = Endpoint(
                resource,
                path,
                self._source.pictures,
                self._allocator,
                host_dev=self._options.host_dev,
                log=self._log,
            )
            await endpoint.start()
            return endpoint

        return Session(
            resource,
            self._kubelet,
            listen,
            log=self._log,
            registered=lambda result: self._metrics.registered(resource, result),
            random=random.random,
        )

    def _mine(self, socket: str) -> bool:
        return f"-{self._names.process}-" in socket

    def _connected(self) -> dict[str, bool]:
        return {session.resource: session.connected for session in self._sessions.all()}

    async def _health(self) -> str:
        """Each of our sockets is called, as kubelet would. A kubelet that is away is no fault of ours."""
        endpoints = [s.endpoint for s in self._sessions.all() if isinstance(s.endpoint, Endpoint)]
        checks = await asyncio.gather(
            *(endpoint.check() for endpoint in endpoints if endpoint.socket_present()), return_exceptions=True
        )
        problems = [str(found) for found in checks if isinstance(found, EndpointError)]
        return "; ".join(problems)

    async def _ready(self) -> str:
        if not self._source.scanned:
            return "the NICs have not been read yet"
        apart = [s for s in self._sessions.all() if not s.connected]
        return "; ".join(f"{s.resource}: {s.problem or s.state.value}" for s in apart)

    async def _status(self) -> dict[str, Any]:
        picture = self._source.pictures.value
        return {
            "version": VERSION,
            "config": {"file": str(self._options.config), "hash": self._source.config_hash},
            "pools": _pools(picture),
            "sessions": [
                {
                    "resource": session.resource,
                    "state": session.state.value,
                    "connected": session.connected,
                    "socket": session.endpoint.name if session.endpoint else None,
                    "registrations": session.registrations,
                    "problem": session.problem,
                }
                for session in self._sessions.all()
            ],
        }


def _pools(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "resource": pool.config.resource,
            "mode": pool.config.mode,
            "devices": len(pool.devices),
            "healthy": pool.healthy,
            "nics": [
                {
                    "id": nic.id,
                    "rdma_device": nic.rdma_device,
                    "usable": nic.usable,
                    "reasons": list(nic.reasons),
                    "ports": {str(port.number): port.state for port in nic.ports},
                }
                for nic in pool.nics
            ],
            "unhealthy_devices": [device.id for device in pool.devices if not device.healthy][:20],
            "warnings": list(pool.warnings),
        }
        for pool in picture.pools
    ]
