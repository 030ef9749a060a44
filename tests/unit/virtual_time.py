# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event loop whose clock jumps to the next timer when nothing else is to do: hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, it moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing will ever happen: every task waits, and no timer is set")
        self.now += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Runs the scenario from second 0 on; what it started and left running is cancelled at its end."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(scenario)


def now() -> float:
    """Seconds since the scenario began."""
    return asyncio.get_running_loop().time()
