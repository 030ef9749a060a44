# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts from rows of looks. ``.``: up, ``x``: down, ``?``: could not be read; below, what is believed after each."""

from __future__ import annotations

import pytest

from rdma_dp.core.model import HealthConfig
from rdma_dp.health import Verdict, any_active, judge

LOOKS = {".": True, "x": False, "?": None}
CONFIG = HealthConfig(fail_after=2, recover_after=3)


@pytest.mark.parametrize(
    ("looks", "believed"),
    [
        ("......", "......"),
        ("x.....", "xxx..."),  # down at the start is down at once
        ("?.....", "......"),  # unknown at the start is offered
        (".x....", "......"),  # one look is not enough
        (".xx...", "..xxx."),
        (".x.x.x", "......"),  # flapping changes nothing
        (".xx.x..x...", "..xxxxxxxx."),  # nor does it while down: the row of good looks starts over
        (".x?x..", "...xxx"),  # what can't be read neither breaks a row nor counts
        (".???..", "......"),
        ("x..?.", "xxxx."),
    ],
)
def test_rows_of_looks(looks: str, believed: str) -> None:
    verdicts: dict[str, Verdict] = {}
    found = ""
    for look in looks:
        verdicts = judge(verdicts, {"nic": LOOKS[look]}, CONFIG)
        found += "." if verdicts["nic"].up else "x"
    assert found == believed


def test_nics_are_judged_apart_and_forgotten_when_they_are_gone() -> None:
    first = judge({}, {"a": True, "b": False}, CONFIG)
    assert {nic: verdict.up for nic, verdict in first.items()} == {"a": True, "b": False}
    assert judge(first, {"a": True}, CONFIG).keys() == {"a"}
    # Back again, it is judged by its first look, not by what was before.
    assert judge(judge(first, {"a": True}, CONFIG), {"a": True, "b": True}, CONFIG)["b"].up


@pytest.mark.parametrize(
    ("states", "up"),
    [
        (["ACTIVE"], True),
        (["DOWN", "ACTIVE"], True),  # a second port without a cable
        (["DOWN", "DOWN"], False),
        (["INIT"], False),  # InfiniBand without a subnet manager
        (["ACTIVE_DEFER"], False),
        (["", "DOWN"], False),
        (["", ""], None),
        ([], None),
    ],
)
def test_a_nic_is_up_when_any_port_is_active(states: list[str], up: bool | None) -> None:
    assert any_active(states) is up
