# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest value of something, and a way to wait for a newer one.

Old values are dropped, never queued: any number of changes while nobody listens costs nothing, and whoever comes next
starts with the newest. Single-threaded: everything here belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Holds one value. ``publish`` replaces it and wakes everybody who is :func:`watching`."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._watchers: set[asyncio.Event] = set()

    def publish(self, value: T) -> bool:
        """Returns whether the value differs from the one before; an equal value wakes nobody."""
        if value == self.value:
            return False
        self.value = value
        for watcher in self._watchers:
            watcher.set()
        return True


@contextmanager
def watching(*sources: Latest[Any]) -> Iterator[asyncio.Event]:
    """An event that is set when any source changes. Clear it, look at the values, then wait: no change is lost."""
    event = asyncio.Event()
    for source in sources:
        source._watchers.add(event)
    try:
        yield event
    finally:
        for source in sources:
            source._watchers.discard(event)


async def happens(event: asyncio.Event, within: float | None) -> bool:
    """Waits for the event, at most ``within`` seconds (None: without end); returns whether it happened."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True
