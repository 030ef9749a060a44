# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One thread for the reads that may take long.

Reading a port's state asks the NIC's firmware on real hardware, which can hang for seconds; neither Allocate nor the
end of the process may wait for it. Hence a daemon thread: the executors of the standard library are joined at exit.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs functions one after another in its own thread."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result, or its exception, without blocking the loop meanwhile."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def deliver(setter: Callable[[Any], None], outcome: Any) -> None:
            if not future.done():  # cancelled meanwhile
                setter(outcome)

        def job() -> None:
            try:
                outcome, setter = function(), future.set_result
            except Exception as error:  # noqa: BLE001 - handed to the one who awaits
                outcome, setter = error, future.set_exception  # type: ignore[assignment]
            try:
                loop.call_soon_threadsafe(deliver, setter, outcome)
            except RuntimeError:
                return  # the loop is closed: the process is ending

        self._jobs.put(job)
        return await future
