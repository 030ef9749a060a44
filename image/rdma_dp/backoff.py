# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long to wait before the next try: a value, so that whoever uses it brings the clock and the dice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Backoff:
    """Doubles from ``first`` to ``most`` seconds (DESIGN: 0.2 s to 5 s), with jitter of a quarter to either side."""

    first: float = 0.2
    most: float = 5.0
    jitter: float = 0.25
    failures: int = 0

    def failed(self) -> Backoff:
        """The value after one more failure."""
        return replace(self, failures=self.failures + 1)

    def reset(self) -> Backoff:
        """The value after a success."""
        return replace(self, failures=0)

    def delay(self, random: Callable[[], float]) -> float:
        """Seconds to wait now: 0 without a failure, else within [first, most]. ``random`` yields [0, 1)."""
        if self.failures == 0:
            return 0.0
        # 2**64 times anything is past every sensible limit; without the bound the power would become a huge integer.
        plain = min(self.most, self.first * 2.0 ** min(self.failures - 1, 64))
        return max(self.first, min(self.most, plain * (1 - self.jitter + 2 * self.jitter * random())))
