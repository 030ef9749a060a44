# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call for each of many things, over a few connections. Private to this collection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, List, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def each(work: Callable[[A], B], items: Iterable[A], connections: int) -> List[B]:
    """``work`` of every item, in the items' order. The first exception ends it: what has not begun is not done."""
    todo = list(items)
    if len(todo) <= 1:
        return [work(item) for item in todo]
    executor = ThreadPoolExecutor(max_workers=min(connections, len(todo)))
    try:
        return [future.result() for future in [executor.submit(work, item) for item in todo]]
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
