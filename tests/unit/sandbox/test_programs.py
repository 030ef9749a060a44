# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which programs are taken, what the cache's key is made of, and what of Go is good enough."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest

from tests.sandbox import golang, programs
from tests.sandbox.errors import SandboxError
from tests.sandbox.programs import (
    GO_DIRECTORY,
    cache_directory,
    cache_key,
    has_version,
    parse_version,
    provide,
    sources,
)
from tests.sandbox.progress import Progress

SILENT = Progress(write=lambda line: None)


@pytest.mark.parametrize(
    "go_mod",
    [
        "module x\n\nrequire k8s.io/kubernetes v1.36.3\n",
        "module x\n\nrequire (\n\tk8s.io/api v0.36.3\n\tk8s.io/kubernetes v1.36.3\n)\n",
        "require k8s.io/kubernetes v1.36.3 // indirect\n",
    ],
)
def test_the_version_is_read_from_go_mod(go_mod: str) -> None:
    assert parse_version(go_mod, "k8s.io/kubernetes") == "v1.36.3"


def test_a_go_mod_without_the_module_is_refused() -> None:
    with pytest.raises(SandboxError, match=r"does not require k8s\.io/kubernetes"):
        parse_version("require k8s.io/kubernetes-not v1.36.3\n", "k8s.io/kubernetes")


def test_both_modules_of_the_checkout_are_described() -> None:
    kubernetes, etcd = sources()
    assert set(kubernetes.packages) | set(etcd.packages) == set(programs.NAMES)
    assert f"gitVersion={kubernetes.version}" in kubernetes.ldflags
    assert re.fullmatch(r"v1\.\d+\.\d+", kubernetes.version)
    assert re.fullmatch(r"v3\.\d+\.\d+", etcd.version)


def test_every_staging_module_is_replaced_by_the_same_release() -> None:
    text = (GO_DIRECTORY / "kubernetes" / "go.mod").read_text()
    wanted = sources()[0].version.replace("v1.", "v0.")
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 30
    assert {(name == target, version) for name, target, version in replaced} == {(True, wanted)}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """tests/go, to be changed."""
    return Path(shutil.copytree(GO_DIRECTORY, tmp_path / "go"))


def test_equal_inputs_have_one_key_wherever_the_checkout_is(copied: Path) -> None:
    assert [cache_key(source, "x86_64") for source in sources()] == [cache_key(s, "x86_64") for s in sources(copied)]


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_any_change_of_the_modules_changes_the_key_of_that_source_only(copied: Path, file: str) -> None:
    with (copied / "etcd" / file).open("a") as stream:
        stream.write("\n")
    kubernetes, etcd = sources()
    changed_kubernetes, changed_etcd = sources(copied)
    assert cache_key(changed_kubernetes, "x86_64") == cache_key(kubernetes, "x86_64")
    assert cache_key(changed_etcd, "x86_64") != cache_key(etcd, "x86_64")


def test_another_machine_has_another_key() -> None:
    source = sources()[0]
    assert cache_key(source, "x86_64") != cache_key(source, "aarch64")
    assert cache_key(source, "x86_64").startswith(f"kubernetes-{source.version}-x86_64-")


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/lingjun-rdma"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/lingjun-rdma"),
    ],
)
def test_the_cache_is_the_users(environment: dict[str, str], directory: str) -> None:
    assert cache_directory(environment) == Path(directory)


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("says", "good"),
    [
        ("Kubernetes v1.36.3", True),
        ("etcd Version: 1.36.3", True),
        ("Kubernetes v1.36.30", False),
        ("Kubernetes v1.36.3-alpha.1", False),
        ("Kubernetes v1.36.3+k3s1", False),
        ("Kubernetes v11.36.3", False),
        ("", False),
    ],
)
def test_only_the_very_version_will_do(tmp_path: Path, says: str, good: bool) -> None:
    assert has_version(program(tmp_path / "kubelet", says), "v1.36.3") is good


def test_a_file_that_is_no_program_is_not_it(tmp_path: Path) -> None:
    path = tmp_path / "kubelet"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    assert not has_version(path, "v1.36.3")


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All programs in SANDBOX_BIN_DIR in the right version; nothing on PATH or in the cache."""
    kubernetes, etcd = sources()
    for name in programs.NAMES:
        version = etcd.version if name == "etcd" else kubernetes.version
        program(tmp_path / "bin" / name, f"Version: {version}")
    monkeypatch.setenv("SANDBOX_BIN_DIR", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_programs_in_the_named_directory_are_taken_and_nothing_is_built(found: Path) -> None:
    assert {path.parent for path in provide(SILENT).paths.values()} == {found / "bin"}
    assert not (found / "cache").exists()


def test_only_what_is_missing_is_built(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(found / "bin" / "kubelet", "Kubernetes v1.35.0")
    (found / "cache" / "lingjun-rdma" / "build-killed").mkdir(parents=True)
    asked: list[dict[str, str]] = []

    def build(go: Path, module: Path, packages: dict[str, str], ldflags: str, target: Path, progress: Progress) -> None:
        asked.append(packages)
        program(target / "kubelet", "built")

    monkeypatch.setattr(golang, "provide", lambda *_unused: Path("/go"))
    monkeypatch.setattr(golang, "build", build)
    built = provide(SILENT)
    assert asked == [{"kubelet": "k8s.io/kubernetes/cmd/kubelet"}]
    assert (
        built["kubelet"] == found / "cache" / "lingjun-rdma" / cache_key(sources()[0], platform.machine()) / "kubelet"
    )
    assert built["etcd"] == found / "bin" / "etcd"
    assert provide(SILENT).paths == built.paths
    assert len(asked) == 1
    assert not list((found / "cache" / "lingjun-rdma").glob("build-*"))


def test_a_build_that_fails_leaves_nothing_in_the_cache(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found / "bin" / "etcd").unlink()

    def build(go: Path, module: Path, packages: dict[str, str], ldflags: str, target: Path, progress: Progress) -> None:
        (target / "server").write_text("half")
        raise SandboxError("`go build` failed")

    monkeypatch.setattr(golang, "provide", lambda *_unused: Path("/go"))
    monkeypatch.setattr(golang, "build", build)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(SandboxError, match="go build"):
        provide(SILENT)
    left = [path for path in (found / "cache").rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["build.lock"]


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27 linux/amd64", (1, 27)),
        ("go 1.26.0", (1, 26, 0)),
        ("nonsense", ()),
    ],
)
def test_go_says_its_release(text: str, release: tuple[int, ...]) -> None:
    assert golang.parse_release(text) == release


@pytest.mark.parametrize(("version", "taken"), [("go1.26.0", True), ("go1.27.1", True), ("go1.25.9", False)])
def test_go_on_path_is_taken_when_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    go = program(tmp_path / "path" / "go", f"go version {version} linux/amd64")
    installed: list[Path] = []
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setattr(golang, "_install", installed.append)
    found = golang.provide(tmp_path / "cache", GO_DIRECTORY / "kubernetes" / "go.mod", SILENT)
    assert (found == go) is taken
    assert bool(installed) is not taken
