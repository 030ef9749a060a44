# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One session per offered resource: started, kept and ended as the picture says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rdma_dp import tasks
from rdma_dp.core.model import Picture
from rdma_dp.latest import Latest, watching
from rdma_dp.logs import Log
from rdma_dp.session import Session

# A session stops in about half a second at most; this only bounds what should not happen.
STOP = 1.2  # s


class Sessions:
    """Follows ``pictures``: a resource that gets its first device gets a session, one that left the config loses it.

    An unchanged resource is not touched, so its stream lives on. A resource whose devices have all gone keeps its
    session: kubelet must learn that they are gone.
    """

    def __init__(
        self,
        pictures: Latest[Picture],
        start: Callable[[str], Session],
        *,
        log: Log,
        crashed: Callable[[str], None],
    ) -> None:
        self._pictures = pictures
        self._start = start
        self._log = log
        self._crashed = crashed
        self._running: dict[str, tuple[Session, asyncio.Task[None]]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._ended = Latest(0)

    def all(self) -> list[Session]:
        """Those of the resources that are offered."""
        return [session for session, _unused in list(self._running.values())]

    async def run(self) -> None:
        """Follows the pictures until it is cancelled; then :meth:`stop` is still to be called."""
        with watching(self._pictures, self._ended) as changed:
            while True:
                changed.clear()
                self._adjust(self._pictures.value)
                await changed.wait()

    async def stop(self) -> None:
        """Ends all sessions, at the same time."""
        running = [task for _unused, task in self._running.values()]
        late = await tasks.cancel([*running, *self._ending.values()], within=STOP)
        if late:
            self._log.error("sessions did not stop in time", tasks=late)
        self._running.clear()

    def _adjust(self, picture: Picture) -> None:
        configured = {pool.config.resource for pool in picture.pools}
        for resource in self._running.keys() - configured:
            _unused, task = self._running.pop(resource)
            task.cancel()
            self._ending[resource] = task
            task.add_done_callback(lambda _unused, resource=resource: self._forget(resource))  # type: ignore[misc]
        for pool in picture.pools:
            resource = pool.config.resource
            # Never two sessions of one resource: its old one must have ended before (KUBELET.md rule 29).
            if pool.devices and resource not in self._running and resource not in self._ending:
                session = self._start(resource)
                name = f"session {resource}"
                task = tasks.keep_running(name, session.run, log=self._log, crashed=self._crashed)
                self._running[resource] = session, task

    def _forget(self, resource: str) -> None:
        del self._ending[resource]
        self._ended.publish(self._ended.value + 1)
