# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pinned Python packages of image/requirements.txt, as wheels for the image's Python and architecture."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from imagebuild.errors import BuildError, run
from imagebuild.packages import Package
from imagebuild.runtime import refuse_unknown_libraries
from imagebuild.tree import Entry, read_directory

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# manylinux2014 is glibc 2.17, the oldest that the wheels here are built for.
_OLDEST_GLIBC = 17
_UNUSED = re.compile(
    r"(^|/)(__pycache__|tests?|bin)/|\.(pyi|pyx|pxd|pxi|c|h)$|\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$"
)


def glibc_minor(packages: Sequence[Package]) -> int:
    """The minor version of the image's C library: 36 for glibc 2.36."""
    version = next((package.version for package in packages if package.name == "libc6"), "")
    match = re.match(r"2\.(\d+)", version)
    if not match:
        raise BuildError(f"The image's libc6 has the version {version or '(none)'}, not 2.N.")
    return int(match[1])


def platform_options(arch: str, glibc: int) -> list[str]:
    """pip's options for the platforms whose wheels run on the image, newest first (PEP 600)."""
    machine = _MACHINES.get(arch)
    if machine is None:
        raise BuildError(f"There are no wheels for the architecture {arch}; take one of {', '.join(_MACHINES)}.")
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(glibc, _OLDEST_GLIBC - 1, -1)]
    return [f"--platform={name}" for name in (*names, f"manylinux2014_{machine}")]


def install(requirements: Path, python_version: str, options: Sequence[str] = ()) -> dict[str, Entry]:
    """What pip installs, relative to the directory of packages, without what only developers need.

    :param options: pip's options for another platform than this machine's.
    :raises BuildError: when pip is missing, or can't get a pinned wheel.
    """
    with tempfile.TemporaryDirectory(prefix="imagebuild-") as scratch:
        pip_install(requirements, Path(scratch), (f"--python-version={python_version}", *options))
        found = read_directory(Path(scratch), lambda path: not _UNUSED.search(path))
    # Some wheels mark everything as a program.
    tree = {path: replace(entry, mode=0o644) for path, entry in found.items()}
    refuse_unknown_libraries(tree)
    return tree


def pip_install(requirements: Path, target: Path, options: Sequence[str] = ()) -> None:
    """Install pinned wheels into a directory; pip checks each against its hash.

    :raises BuildError: when pip is missing, or can't get a pinned wheel.
    """
    run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"),
            *("--require-hashes", "--only-binary=:all:", "--no-compile", "--implementation=cp", *options),
            *("--requirement", str(requirements), "--target", str(target)),
        ],
        f"install the wheels of {requirements.name}",
        "It takes pip in the Python that runs this, and a package index that pip is configured for.",
        env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"},
    )
