# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pauses between tries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdma_dp.backoff import Backoff


def after(failures: int) -> Backoff:
    return Backoff(failures=failures)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0.0), (1, 0.2), (2, 0.4), (3, 0.8), (4, 1.6), (5, 3.2), (6, 5.0), (7, 5.0), (10**6, 5.0)],
)
def test_doubles_up_to_five_seconds(failures: int, seconds: float) -> None:
    assert after(failures).delay(lambda: 0.5) == pytest.approx(seconds)


def test_a_success_starts_over() -> None:
    assert Backoff().failed().failed().failed().reset() == Backoff()
    assert Backoff().failed().failures == 1


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_stays_within_its_bounds_whatever_the_dice(failures: int, dice: float) -> None:
    assert 0.2 <= after(failures).delay(lambda: dice) <= 5.0


def test_jitter_is_a_quarter_to_either_side() -> None:
    assert after(3).delay(lambda: 0.0) == pytest.approx(0.6)
    assert after(3).delay(lambda: 1.0) == pytest.approx(1.0)
