# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages from the machine's own apt sources, kept in the cache.

Apt resolves the dependencies and checks the signatures; nothing of the packages is run.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import platform
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from imagebuild.cache import Cache, digest
from imagebuild.errors import BuildError, run
from imagebuild.packages import Package, field
from imagebuild.tree import Entry, directory, file, link, merged_usr

# python3-minimal brings the interpreter, libstdc++6 is what grpcio's wheel needs, base-files says which Debian it is.
WANTED = ("base-files", "python3-minimal", "libpython3-stdlib", "libstdc++6", "busybox-static")
_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
_WAY_B = "Or build image/Containerfile with podman, docker or buildah."


@dataclass(frozen=True)
class Sources:
    """Where packages come from."""

    file: Path
    suite: str  # "bookworm"


@dataclass(frozen=True)
class Download:
    """The packages of one architecture, as apt resolved them at one time."""

    suite: str
    folder: Path
    digest: str  # of all packages' contents
    fetched: float  # s since the epoch


def find_sources(given: Path | None) -> Sources:
    """The machine's apt sources of Debian, unless the caller names a file.

    :raises BuildError: when the machine is not a Debian one, or there are no sources.
    """
    release = _os_release()
    if given is None and release.get("ID") != "debian":
        raise BuildError(
            f"This machine runs {release.get('PRETTY_NAME', 'no Debian')}; the image is made of Debian packages. "
            f"Name a file with apt sources of Debian: --apt-sources FILE. {_WAY_B}"
        )
    candidates = (given,) if given else _SOURCES
    for candidate in candidates:
        if candidate.is_file() and (suite := first_suite(candidate.read_text())):
            return Sources(candidate, suite)
    raise BuildError(
        f"No apt sources in {' or '.join(map(str, candidates))}. "
        f"Name the file that has Debian's: --apt-sources FILE. {_WAY_B}"
    )


def first_suite(sources: str) -> str:
    """The first suite that apt sources name, in either of their formats (sources.list(5)); "" when there is none."""
    for line in sources.splitlines():
        if match := re.match(r"\s*(?:[Ss]uites:|deb\s+(?:\[[^]]*\]\s+)?\S+)\s+([\w./-]+)", line):
            return match[1]
    return ""


def folder(sources: Sources, arch: str, cache: Cache) -> Path:
    """Where the packages of these sources are kept."""
    key = digest(sources=sources.file.read_text(), suite=sources.suite, arch=arch, wanted=WANTED)
    return cache.folder / "packages" / f"{sources.suite}-{arch}-{key[:16]}"


def fetch(sources: Sources, arch: str, cache: Cache, refresh: bool, say: Callable[[str], None]) -> Download:
    """Packages for ``arch`` ("amd64", "arm64"): those in the cache, or what apt offers now.

    :param say: gets a line when packages are downloaded, which takes seconds.
    :raises BuildError: when mmdebstrap is missing or apt can't get the packages.
    """
    here = folder(sources, arch, cache)
    if refresh or not cached(here):
        here.parent.mkdir(parents=True, exist_ok=True)
        with here.with_suffix(".lock").open("w") as lock:
            # Another build may be getting them: its packages will do.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if refresh or not cached(here):
                say(f"{arch}: getting Debian's packages ({sources.suite}, {sources.file})")
                _download(sources, arch, here)
    return Download(sources.suite, here, _digest_of(here), (here / "complete").stat().st_mtime)


def cached(packages: Path) -> bool:
    """Whether an earlier download is there, whole."""
    return (packages / "complete").is_file()


def read(download: Download) -> list[Package]:
    """The contents of the downloaded packages, sorted by name."""
    return sorted((_read_package(deb) for deb in _debs(download.folder)), key=lambda package: package.name)


def python_version(download: Download) -> str:
    """The minor version of the downloaded Python ("3.11"), by the packages' names.

    :raises BuildError: when there is none.
    """
    for deb in _debs(download.folder):
        if match := re.match(r"python(3\.\d+)-minimal_", deb.name):
            return match[1]
    raise BuildError("Debian's packages brought no python3.N-minimal; take a suite of Debian 12 or later.")


def native_arch() -> str:
    """Debian's name of this machine's architecture."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _download(sources: Sources, arch: str, target: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as scratch,
        # Where mmdebstrap works: ours, so that nothing of it is left when it is killed. Apt's own user has to get in.
        tempfile.TemporaryDirectory(prefix="imagebuild-", ignore_cleanup_errors=True) as work,
    ):
        Path(work).chmod(0o755)
        run(
            [
                "mmdebstrap",
                "--variant=extract",
                "--format=null",
                f"--architectures={arch}",
                f"--include={','.join(WANTED)}",
                "--skip=cleanup/apt/cache",
                f"--extract-hook=copy-out /var/cache/apt/archives {scratch}",
                sources.suite,
                "/dev/null",
                str(sources.file),
            ],
            f"get the Debian packages for {arch}",
            f"It takes mmdebstrap, and apt sources in {sources.file} that can be reached and have {arch}. {_WAY_B}",
            env={**os.environ, "TMPDIR": work},
        )
        arrived = Path(scratch) / "archives"
        if not _debs(arrived):
            raise BuildError(f"mmdebstrap left no packages for {arch}; version 1.3 or later is needed.")
        (arrived / "complete").write_text(time.strftime("%Y-%m-%d\n", time.gmtime()))
        shutil.rmtree(target, ignore_errors=True)
        arrived.rename(target)


def _debs(packages: Path) -> list[Path]:
    return sorted(packages.glob("*.deb"))


def _digest_of(packages: Path) -> str:
    return digest(debs=[(deb.name, hashlib.sha256(deb.read_bytes()).hexdigest()) for deb in _debs(packages)])


def _read_package(deb: Path) -> Package:
    remedy = "Remove the file, or build with --refresh."
    control = run(["dpkg-deb", "--field", str(deb)], f"read {deb}", remedy).decode()
    contents = run(["dpkg-deb", "--fsys-tarfile", str(deb)], f"read {deb}", remedy)
    files: dict[str, Entry] = {}
    with tarfile.open(fileobj=io.BytesIO(contents)) as archive:
        for member in archive:
            path = merged_usr(member.name.removeprefix("./").rstrip("/"))
            if member.isfile():
                stream = archive.extractfile(member)
                assert stream is not None  # a regular file has contents
                files[path] = file(stream.read(), member.mode)
            elif member.islnk():
                files[path] = files[merged_usr(member.linkname.removeprefix("./"))]
            elif member.issym():
                files[path] = link(member.linkname)
            elif member.isdir() and path not in ("", "."):
                files[path] = directory(member.mode)
    return Package(field(control, "Package"), control, files)


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}
