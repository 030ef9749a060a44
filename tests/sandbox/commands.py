# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running the system's small tools (ip, mount, ctr, iptables) to their end."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any

from tests.sandbox.errors import SandboxError

# What a root login on Debian has: sbin may be missing from the PATH of whoever called us.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

INSTALL = "Install the packages of requirements/debian.txt: make deps"


def environment() -> dict[str, str]:
    """The whole environment of every program of the sandbox: no proxy, no KUBECONFIG, no Go setting leaks in."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}".lstrip(":")
    return {"PATH": path, "HOME": os.path.expanduser("~"), "LANG": "C.UTF-8"}


def which(program: str) -> str | None:
    """The program's path, looked up as :func:`run` does."""
    return shutil.which(program, path=environment()["PATH"])


def run(
    argv: Sequence[str],
    *,
    stdin: str | IO[bytes] | None = None,
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
) -> str:
    """Standard output of a command.

    :param stdin: a text, or an open file to read from; nothing by default.
    :raises SandboxError: it is missing, took longer than ``timeout`` s, or failed; with its standard error.
    """
    line = shlex.join(argv)
    source: dict[str, Any] = (
        {"input": stdin.encode()} if isinstance(stdin, str) else {"stdin": stdin or subprocess.DEVNULL}
    )
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=timeout, env=env or environment(), check=False, **source
        )
    except FileNotFoundError:
        raise SandboxError(f"The program {argv[0]} is missing. {INSTALL}") from None
    except subprocess.TimeoutExpired:
        raise SandboxError(f"`{line}` did not end within {timeout:g} s.") from None
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise SandboxError(f"`{line}` failed with exit code {done.returncode}: {words}")
    return str(done.stdout.decode(errors="replace"))
