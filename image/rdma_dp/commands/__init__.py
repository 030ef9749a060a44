# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The subcommands that give an answer and end. Each returns what to print; only the command line itself writes."""

from __future__ import annotations

from dataclasses import dataclass

GOOD, NO, UNUSABLE = 0, 1, 2  # fine; the answer is no; wrong usage or unreadable input


@dataclass(frozen=True)
class Answer:
    """What a subcommand found: the exit code, the result for stdout, the messages for stderr."""

    code: int
    result: str
    messages: tuple[str, ...] = ()


class UsageError(Exception):
    """The command can't be carried out as it was given; the text is a sentence that names the flag or the file."""
