# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that are waited for: nothing is lost, nothing is queued."""

from __future__ import annotations

import asyncio

from rdma_dp.latest import Latest, happens, watching
from tests.unit.virtual_time import now, run


def test_an_equal_value_wakes_nobody() -> None:
    async def scenario() -> None:
        source = Latest((1, 2))
        with watching(source) as changed:
            assert not source.publish((1, 2))
            assert not changed.is_set()
            assert source.publish((1, 3))
            assert changed.is_set()

    run(scenario())


def test_a_slow_reader_sees_the_newest_value_once() -> None:
    async def scenario() -> None:
        source = Latest(0)
        seen = []

        async def read() -> None:
            with watching(source) as changed:
                while source.value < 100:
                    changed.clear()
                    seen.append(source.value)
                    await asyncio.sleep(10)
                    await changed.wait()

        reader = asyncio.create_task(read())
        await asyncio.sleep(1)
        for value in range(1, 51):
            source.publish(value)
        await asyncio.sleep(15)
        source.publish(100)
        await reader
        assert seen == [0, 50]

    run(scenario())


def test_a_change_between_looking_and_waiting_is_not_lost() -> None:
    async def scenario() -> None:
        one, two = Latest("a"), Latest("b")
        with watching(one, two) as changed:
            changed.clear()
            two.publish("c")
            assert await happens(changed, within=1)
            assert now() == 0

    run(scenario())


def test_nobody_is_remembered_after_the_watch() -> None:
    async def scenario() -> None:
        source = Latest(0)
        for _unused in range(3):
            with watching(source):
                pass
        assert not source._watchers

    run(scenario())


def test_waiting_ends_in_time() -> None:
    async def scenario() -> None:
        assert not await happens(asyncio.Event(), within=7)
        assert now() == 7
        assert not await happens(asyncio.Event(), within=-1)

    run(scenario())
