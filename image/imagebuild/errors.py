# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong while an image is built, and how programs are run so that their failures are told well."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

_CLEAN_UP = 5  # s


class BuildError(Exception):
    """One sentence for the person at the keyboard: what is wrong, where, what to do."""


def run(
    command: Sequence[str], what: str, remedy: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> bytes:
    """Run a program and return its standard output.

    :param what: what the program was to do, as the object of "could not".
    :raises BuildError: when it is missing or ends with an error; its last lines are in the message.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise BuildError(f"Could not {what}: the program {command[0]} is not installed. {remedy}") from None
    with process:
        try:
            output, errors = process.communicate(stdin)
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        said = "\n".join(errors.decode(errors="replace").strip().splitlines()[-4:])
        raise BuildError(f"Could not {what}: {command[0]} ended with {process.returncode}. {remedy}\n{said}")
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started, giving it time to clean up."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=_CLEAN_UP)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
