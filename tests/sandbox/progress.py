# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress lines with the time since the command began."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


def _print(line: str) -> None:
    print(line, flush=True)


@dataclass
class Progress:
    """Says what is happening; silent with a ``write`` that does nothing."""

    write: Callable[[str], None] = _print
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def say(self, text: str) -> None:
        """One line: ``[ 12.3 s] text``."""
        self.write(f"   [{self.clock() - self._began:5.1f} s] {text}")
