# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Background tasks that can't die silently: each has a name, and its unexpected end is logged, counted and mended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from rdma_dp.backoff import Backoff
from rdma_dp.logs import Log

Run = Callable[[], Coroutine[Any, Any, None]]

# A run that lasted this long (s) was healthy: the next failure is counted from one again.
_STEADY = 60.0


def keep_running(name: str, run: Run, *, log: Log, crashed: Callable[[str], None]) -> asyncio.Task[None]:
    """Starts ``run()`` as a task and starts it again whenever it ends, until the task is cancelled.

    ``crashed(name)`` is called for each unexpected end (for the metric). The pauses grow from 0.2 s to 5 s.
    """

    async def supervise() -> None:
        backoff = Backoff()
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            try:
                await run()
                log.error("a background task ended by itself; it is started again", task=name)
            except Exception as error:  # noqa: BLE001 - whatever it was: reported, counted, and the task comes back
                log.crash("a background task failed; it is started again", error, task=name)
            crashed(name)
            backoff = (backoff.reset() if clock() - started > _STEADY else backoff).failed()
            await asyncio.sleep(backoff.delay(random.random))

    return asyncio.create_task(supervise(), name=name)


async def cancel(tasks: Iterable[asyncio.Task[None]], within: float) -> list[str]:
    """Cancels the tasks, all at once, and waits for their end; returns the names of those that took longer (s)."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    if pending:
        _unused, pending = await asyncio.wait(pending, timeout=within)
    return sorted(task.get_name() for task in pending)
