# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges NICs from repeated looks at their ports: a state machine without I/O and without a clock.

Three values inside: a look says up, down, or nothing (the port can't be read); nothing changes nothing. A verdict turns
only after several equal looks in a row, so a flapping port does not flap kubelet's list, which shows in pod status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rdma_dp.core.model import HealthConfig


@dataclass(frozen=True)
class Verdict:
    """What is believed of a NIC, and how many looks in a row have said otherwise."""

    up: bool = True
    against: int = 0


def any_active(states: Iterable[str]) -> bool | None:
    """Whether any port is active; None when none can be read. A second port without a cable does not matter.

    ``states`` are those of Port.state, "" for one that can't be read.
    """
    readable = [state for state in states if state]
    return "ACTIVE" in readable if readable else None


def judge(before: Mapping[str, Verdict], looks: Mapping[str, bool | None], config: HealthConfig) -> dict[str, Verdict]:
    """The verdicts after one more look at each NIC (by NIC id).

    A NIC that is looked at for the first time is what the look says: one that is down when the plugin starts is not
    offered as healthy meanwhile. One that is not looked at any more is forgotten.
    """
    return {nic: _turn(before.get(nic), look, config) for nic, look in looks.items()}


def _turn(before: Verdict | None, look: bool | None, config: HealthConfig) -> Verdict:
    if before is None:
        return Verdict(up=look is not False)
    if look is None or look == before.up:
        # An unreadable look breaks no row and makes none: neither recovery nor failure may rest on it.
        return before if look is None else Verdict(before.up)
    against = before.against + 1
    needed = config.fail_after if before.up else config.recover_after
    return Verdict(look) if against >= needed else Verdict(before.up, against)
