# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the image is built from: the project's directory, its git revision and the time of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from imagebuild.archive import MTIME
from imagebuild.errors import BuildError


@dataclass(frozen=True)
class Source:
    """Where the image comes from."""

    revision: (
        str  # commit; with "-dirty" when files differ from it; "" outside of a checkout, as in an installed collection
    )
    created: str  # RFC 3339: the commit's time, so that the same commit gives the same image


def describe(project: Path, environ: Mapping[str, str]) -> Source:
    """The last commit that touched what goes into images, and its time; SOURCE_DATE_EPOCH, when set, is the time.

    :raises BuildError: when SOURCE_DATE_EPOCH is no number.
    """
    commit, _unused, seconds = _git(project, "log", "-1", "--format=%H %ct", "--", "image", "proto").partition(" ")
    dirty = bool(commit) and bool(_git(project, "status", "--porcelain", "--", "image", "proto"))
    given = environ.get("SOURCE_DATE_EPOCH", "")
    if given and not given.isdecimal():
        raise BuildError(f"SOURCE_DATE_EPOCH is {given!r}; it has to be seconds since 1970.")
    created = datetime.fromtimestamp(int(given or seconds or MTIME), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Source(f"{commit}-dirty" if dirty else commit, created)


def _git(project: Path, *arguments: str) -> str:
    """What git says of the project's own repository; nothing when it has none, or one of somebody else above it."""
    if not (project / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", str(project), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
