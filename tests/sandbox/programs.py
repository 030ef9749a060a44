# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes programs and etcd: found where they are, else built once per user with Go.

Versions come from tests/go/*/go.mod and nowhere else. A program is taken from the directory in SANDBOX_BIN_DIR, from
PATH, or from the cache, and only in that very version; what is missing is built into the cache, whose key is made of
all that decides what comes out. Two builds at once wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.sandbox import golang
from tests.sandbox.commands import run
from tests.sandbox.errors import SandboxError
from tests.sandbox.progress import Progress

GO_DIRECTORY = Path(__file__).resolve().parents[1] / "go"
NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "etcd")
_ETCD_MODULE = "go.etcd.io/etcd/server/v3"
_KUBERNETES_MODULE = "k8s.io/kubernetes"


@dataclass(frozen=True)
class Source:
    """One Go module of tests/go and what is built from it."""

    name: str
    directory: Path
    version: str  # "v1.36.3"
    packages: Mapping[str, str]  # program to Go package
    ldflags: str


@dataclass(frozen=True)
class Programs:
    """Where each of :data:`NAMES` is."""

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> Path:
        return self.paths[name]


def parse_version(go_mod: str, module: str) -> str:
    """The version that a go.mod requires of ``module``.

    :raises SandboxError: it does not.
    """
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if not found:
        raise SandboxError(f"The go.mod does not require {module}. Restore it from the repository.")
    return found.group(1)


def sources(directory: Path = GO_DIRECTORY) -> tuple[Source, Source]:
    """Kubernetes and etcd, as tests/go describes them."""
    kubernetes, etcd = directory / "kubernetes", directory / "etcd"
    version = parse_version((kubernetes / "go.mod").read_text(), _KUBERNETES_MODULE)
    major, minor = version.lstrip("v").split(".")[:2]
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    # Without these kubelet reports v0.0.0-master and the control plane refuses it as too old.
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items())
    commands = {name: f"{_KUBERNETES_MODULE}/cmd/{name}" for name in NAMES if name != "etcd"}
    return (
        Source("kubernetes", kubernetes, version, commands, f"-s -w {flags}"),
        Source(
            "etcd", etcd, parse_version((etcd / "go.mod").read_text(), _ETCD_MODULE), {"etcd": _ETCD_MODULE}, "-s -w"
        ),
    )


def cache_key(source: Source, machine: str) -> str:
    """A directory name: readable in front, unique behind."""
    digest = hashlib.sha256()
    for part in (
        (source.directory / "go.mod").read_bytes(),
        (source.directory / "go.sum").read_bytes(),
        source.ldflags.encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    for name, package in sorted(source.packages.items()):
        digest.update(f"{name} {package}\n".encode())
    return f"{source.name}-{source.version}-{machine}-{digest.hexdigest()[:10]}"


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The user's cache directory for this project (XDG base directory specification)."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or os.path.expanduser("~"), ".cache")
    return Path(base) / "lingjun-rdma"


def has_version(path: Path, version: str) -> bool:
    """True when the program says that it is this version."""
    try:
        said = run([str(path), "--version"], timeout=20.0)
    except (SandboxError, OSError):
        return False
    return re.search(rf"\bv?{re.escape(version.lstrip('v'))}(?![\w.+-])", said) is not None


def provide(progress: Progress) -> Programs:
    """All programs, building what is missing.

    :raises SandboxError: no Go, or the build failed.
    """
    found: dict[str, Path] = {}
    for source in sources():
        directory = cache_directory(os.environ) / cache_key(source, platform.machine())
        for name in source.packages:
            path = _existing(name, source.version, directory)
            if path is not None:
                found[name] = path
        if missing := [name for name in source.packages if name not in found]:
            _build(source, missing, directory, progress)
            found.update({name: directory / name for name in missing})
    return Programs(found)


def _existing(name: str, version: str, cache: Path) -> Path | None:
    """The program in the right version; None when it must be built."""
    directories = (os.environ.get("SANDBOX_BIN_DIR"), os.environ.get("PATH"))
    for path in (shutil.which(name, path=directory) for directory in directories if directory):
        if path and has_version(Path(path), version):
            return Path(path).resolve()
    # Complete if it is there, since it was moved there when it was.
    return cache / name if (cache / name).is_file() else None


def _build(source: Source, names: list[str], target: Path, progress: Progress) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with _build_lock(target.parent / "build.lock", progress):
        names = [name for name in names if not (target / name).is_file()]  # the one we waited for built them
        if not names:
            return
        for left in (*target.parent.glob("build-*"), *target.parent.glob("go-*.new")):  # of a build that was killed
            shutil.rmtree(left)
        go = golang.provide(target.parent, source.directory / "go.mod", progress)
        target.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as scratch:
            wanted = {name: source.packages[name] for name in names}
            golang.build(go, source.directory, wanted, source.ldflags, Path(scratch), progress)
            for name in names:
                # etcd's package is called server, and so is the program that Go makes of it.
                built = Path(scratch, name if Path(scratch, name).exists() else "server")
                built.replace(target / name)


@contextmanager
def _build_lock(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another build of the same programs is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
