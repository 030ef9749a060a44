# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real images, of Debian's packages and the pinned wheels: repeatable, small, without a shell, and they run."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from imagebuild import cli, debian, elf
from rdma_dp.version import VERSION

CHECKOUT = Path(__file__).resolve().parents[3]
BUILD = CHECKOUT / "image/build.py"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed (make deps)"),
]


def build(output: Path, *options: str) -> dict[str, dict[str, Any]]:
    """Results by target. Debian's packages and layers come from the user's cache when they are there."""
    done = subprocess.run(
        [sys.executable, BUILD, "--output", output, "--format", "json", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {found["target"]: found for found in json.loads(done.stdout)["images"]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return build(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def roots(built: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both images, unpacked."""
    unpacked = {}
    for target, found in built.items():
        unpacked[target] = tmp_path_factory.mktemp(target)
        for layer in layers(found["archive"]):
            layer.extractall(unpacked[target], filter="tar")
    return unpacked


def contents(image: str) -> dict[str, bytes]:
    with tarfile.open(image) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def layers(image: str) -> list[tarfile.TarFile]:
    files = contents(image)
    return [tarfile.open(fileobj=io.BytesIO(files[name])) for name in json.loads(files["manifest.json"])[0]["Layers"]]


def config(image: str) -> dict[str, Any]:
    files = contents(image)
    return dict(json.loads(files[json.loads(files["manifest.json"])[0]["Config"]]))


def inside(root: Path, command: Sequence[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of the image with nothing else in sight."""
    chroot: list[str | Path] = ["chroot", root] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot", root]
    environment = {"PATH": f"/usr/local/bin:/usr/bin:{os.environ['PATH']}", **(env or {})}
    return subprocess.run([*chroot, *command], capture_output=True, text=True, check=False, env=environment)


def test_a_second_build_gives_the_same_bytes_and_the_same_image(
    built: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    again = build(tmp_path, "--force")
    for target, found in built.items():
        assert again[target]["image_id"] == found["image_id"]
        assert again[target]["archive_sha256"] == found["archive_sha256"]


def test_nothing_is_built_when_nothing_changed(built: dict[str, dict[str, Any]]) -> None:
    output = Path(built["plugin"]["archive"]).parent
    before = {path: path.stat().st_mtime_ns for path in output.iterdir()}
    assert {found["changed"] for found in build(output).values()} == {False}
    assert {path: path.stat().st_mtime_ns for path in output.iterdir()} == before


def test_a_damaged_archive_is_built_again(built: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    for path in Path(built["plugin"]["archive"]).parent.iterdir():
        shutil.copy(path, tmp_path)
    with (tmp_path / "rdma-dp.tar").open("r+b") as stream:
        stream.truncate(100_000)
    assert {target: found["changed"] for target, found in build(tmp_path, "--dry-run").items()} == {
        "plugin": True,
        "test": False,
    }
    found = build(tmp_path, "--target", "plugin")["plugin"]
    assert (found["changed"], found["image_id"]) == (True, built["plugin"]["image_id"])


def test_both_are_under_90_mb(built: dict[str, dict[str, Any]]) -> None:
    for found in built.values():
        assert 10e6 < found["unpacked_bytes"] < 90e6


def test_plugin_has_no_shell_no_package_manager_and_one_program(roots: dict[str, Path]) -> None:
    root = roots["plugin"]
    programs = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK)
        if ".so" not in path.name
    }
    (interpreter,) = (root / "usr/bin").glob("python3.*")
    assert programs == {f"usr/bin/{interpreter.name}", "usr/local/bin/rdma-dp"}
    for name in ("sh", "bash", "dash", "busybox", "dpkg", "apt", "perl"):
        assert not list(root.rglob(f"bin/{name}"))


def test_each_debian_package_has_its_licence(roots: dict[str, Path]) -> None:
    for root in roots.values():
        listed = sorted(path.name for path in (root / "var/lib/dpkg/status.d").iterdir())
        assert "libc6" in listed
        for name in listed:
            assert (root / "usr/share/doc" / name / "copyright").is_file(), name


def test_every_python_file_is_compiled_once_and_nothing_generated_comes_from_the_checkout(
    roots: dict[str, Path],
) -> None:
    root = roots["plugin"]
    sources = {path.relative_to(root) for path in root.rglob("*.py") if not path.is_symlink()}
    compiled = {path.parent.parent.relative_to(root) / f"{path.name.split('.')[0]}.py" for path in root.rglob("*.pyc")}
    assert sources == compiled
    assert len(list(root.rglob("*.pyc"))) == len(sources)
    (api,) = root.rglob("rdma_dp/api")
    for proto in (CHECKOUT / "proto").rglob("*.proto"):
        assert (api / f"{proto.stem}_pb2.py").is_file()
        assert (api / f"{proto.stem}_pb2_grpc.py").is_file()


def test_plugin_runs_in_it(roots: dict[str, Path]) -> None:
    done = inside(roots["plugin"], ["/usr/local/bin/rdma-dp", "version"])
    assert done.returncode == 0, done.stderr
    assert VERSION in done.stdout
    # Whatever the environment says, only the image's own code is imported.
    done = inside(roots["plugin"], ["/usr/local/bin/rdma-dp", "version"], {"PYTHONPATH": "/tmp", "PYTHONHOME": "/tmp"})
    assert done.returncode == 0, done.stderr


def test_plugin_validates_and_discovers_in_it(roots: dict[str, Path], tmp_path: Path) -> None:
    root = roots["plugin"]
    config_file = root / "tmp/config.yaml"
    try:
        config_file.write_text(
            "configList:\n- resourceName: hca\n  rdmaHcaMax: 1000\n  selectors: {rdmaDevices: ['*']}\n"
        )
        done = inside(root, ["/usr/local/bin/rdma-dp", "validate", "--config", "/tmp/config.yaml", "--format", "json"])
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["valid"] is True
        config_file.write_text("configList:\n- resourceName: hca\n  rdmaHcaMaximum: 1000\n")
        done = inside(root, ["/usr/local/bin/rdma-dp", "validate", "--config", "/tmp/config.yaml"])
        assert done.returncode == 1
        assert "rdmaHcaMaximum" in done.stdout + done.stderr
    finally:
        config_file.unlink()
    done = inside(root, ["/usr/local/bin/rdma-dp", "discover", "--format", "json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nics"] == []


def test_everything_that_the_plugin_imports_is_there(roots: dict[str, Path]) -> None:
    code = "import grpc.aio, google.protobuf.message, yaml, prometheus_client, ssl; print(yaml.__with_libyaml__)"
    done = inside(roots["plugin"], ["/usr/bin/python3", "-IB", "-c", code])
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_ack_pages_command_runs_in_the_test_image(roots: dict[str, Path]) -> None:
    done = inside(roots["test"], ["sh", "-c", "python /workspace/benchmark.py"])
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("RDMA test: FAILED: there is no uverbs node")
    assert done.stderr == ""


def test_settings_and_labels(built: dict[str, dict[str, Any]]) -> None:
    plugin, test = (config(built[target]["archive"]) for target in ("plugin", "test"))
    assert plugin["config"]["Entrypoint"] == ["/usr/local/bin/rdma-dp"]
    assert plugin["config"]["User"] == "0:0"
    assert "Entrypoint" not in test["config"]
    for found, title in ((plugin, "rdma-dp"), (test, "rdma-test")):
        labels = found["config"]["Labels"]
        assert labels["org.opencontainers.image.title"] == title
        assert labels["org.opencontainers.image.version"] == VERSION
        assert labels["org.opencontainers.image.created"] == found["created"]
        assert found["architecture"] == debian.native_arch()
    if (CHECKOUT / ".git").exists():
        head = subprocess.run(
            ["git", "-C", CHECKOUT, "log", "-1", "--format=%H", "--", "image", "proto"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert plugin["config"]["Labels"]["org.opencontainers.image.revision"].removesuffix("-dirty") == head


def test_another_architecture_is_built_of_its_own_files(tmp_path: Path) -> None:
    other = {"amd64": "arm64", "arm64": "amd64"}[debian.native_arch()]
    found = build(tmp_path, "--arch", other, "--target", "plugin")["plugin"]
    assert found["archive"] == str(tmp_path / f"rdma-dp-{other}.tar")
    assert config(found["archive"])["architecture"] == other
    machines = set()
    for layer in layers(found["archive"]):
        for member in layer:
            if member.isfile() and (parsed := elf.parse(layer.extractfile(member).read())):  # type: ignore[union-attr]
                machines.add(parsed.machine)
    assert machines == {other}


def test_containerfiles_way_makes_a_root_that_runs(tmp_path: Path) -> None:
    """The first stage of image/Containerfile, out of this machine instead of a base image."""
    root = tmp_path / "root"
    done = subprocess.run(
        [sys.executable, "-m", "imagebuild.within", root],
        cwd=CHECKOUT / "image",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done = inside(root, ["/usr/local/bin/rdma-dp", "version"])
    assert done.returncode == 0, done.stderr
    assert VERSION in done.stdout
    assert not list(root.rglob("bin/sh"))


def test_wrong_usage_and_failures_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--name", "x:1", "--output", str(tmp_path)])
    assert ended.value.code == 2
    assert "--target plugin or --target test" in capsys.readouterr().err
    assert cli.main(["--apt-sources", str(tmp_path / "none"), "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("Error: No apt sources in ")
