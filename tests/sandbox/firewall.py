# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the sandbox's own traffic pass where the machine has a packet filter, such as Docker's or ufw's."""

from __future__ import annotations

import shlex

from tests.sandbox.commands import run, which
from tests.sandbox.errors import SandboxError

_CHAINS = ("INPUT", "FORWARD")


def filters(rules: str) -> bool:
    """True when `iptables -S` shows anything in INPUT or FORWARD beyond the policy ACCEPT."""
    return any(
        line.startswith(tuple(f"-A {chain} " for chain in _CHAINS))
        or line in tuple(f"-P {chain} {policy}" for chain in _CHAINS for policy in ("DROP", "REJECT"))
        for line in rules.splitlines()
    )


def rules_for(bridge: str) -> list[list[str]]:
    """Nodes may reach the API server on the host, and each other; nothing else is opened."""
    mark = ["-m", "comment", "--comment", bridge, "-j", "ACCEPT"]
    return [["INPUT", "-i", bridge, *mark], ["FORWARD", "-i", bridge, "-o", bridge, *mark]]


def deletions(rules: str, bridge: str) -> list[list[str]]:
    """The arguments that delete what :func:`open_for` added, read from `iptables -S`."""
    return [
        ["-D", *words[1:]]
        for words in map(shlex.split, rules.splitlines())
        if words[:1] == ["-A"] and bridge in words and words[-2:] == ["-j", "ACCEPT"]
    ]


def open_for(bridge: str) -> bool:
    """Add the rules if the machine filters at all; True when it does."""
    if which("iptables") is None or not filters(_list()):
        return False
    for rule in rules_for(bridge):
        run(["iptables", "-w", "-I", *rule])
    return True


def close_for(bridge: str) -> None:
    """Take the rules away again."""
    if which("iptables") is None:
        return
    for arguments in deletions(_list(), bridge):
        run(["iptables", "-w", *arguments])


def _list() -> str:
    try:
        return run(["iptables", "-w", "-S"])
    except SandboxError:
        return ""  # a kernel without it filters nothing this way
