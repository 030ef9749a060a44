# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong while an image is built."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


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
        done = subprocess.run(command, input=stdin, capture_output=True, env=env, check=False)
    except FileNotFoundError:
        raise BuildError(f"Could not {what}: the program {command[0]} is not installed. {remedy}") from None
    if done.returncode != 0:
        said = "\n".join(done.stderr.decode(errors="replace").strip().splitlines()[-4:])
        raise BuildError(f"Could not {what}: {command[0]} ended with {done.returncode}. {remedy}\n{said}")
    return done.stdout
