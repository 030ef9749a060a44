# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one family of exceptions of this package."""

from __future__ import annotations


class SandboxError(Exception):
    """What went wrong and what to do about it, as a sentence for the person at the keyboard."""


class ProgramFailed(SandboxError):
    """One of the sandbox's programs ended or did not become ready; the message holds its last log lines."""
