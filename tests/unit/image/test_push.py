# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images get to a registry: the image that was built, under the name that was asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from imagebuild import archive, push
from imagebuild.cache import file_digest
from imagebuild.errors import BuildError
from imagebuild.tree import file
from tests.unit.image.registry import Registry, serving

pytestmark = pytest.mark.slow

needs_buildah = pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed (make deps)")


@pytest.mark.parametrize(
    "name", ["registry.example/a:1", "localhost:5000/a/b:v1.2-3", "docker://registry.example/a/b/c:0.1.0"]
)
def test_names_that_can_be_pushed_to(name: str) -> None:
    assert push.destination(name) == name.removeprefix("docker://")


@pytest.mark.parametrize(
    "name", ["", "no", "a:1", "registry.example/a", "registry.example/a:", "https://r/a:1", "r/a:1 b"]
)
def test_names_that_can_not(name: str) -> None:
    with pytest.raises(BuildError, match="registry/name:tag"):
        push.destination(name)


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BuildError, match="buildah or podman or docker"):
        push.find_program("auto")
    with pytest.raises(BuildError, match="podman"):
        push.find_program("podman")


def test_the_first_program_that_is_installed_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert push.find_program("auto") == "docker"


def image(folder: Path, arch: str) -> tuple[Path, str]:
    """A small image, and its ID."""
    layer = folder / f"{arch}-layer.tar"
    layer.write_bytes(archive.layer({"hello": file(arch)}))
    config = archive.config(arch, "2026-01-02T03:04:05Z", [file_digest(layer)], ["hello"], {"Cmd": ["/hello"]})
    archive.write_image(folder / f"{arch}.tar", "localhost/hello:1", config, [layer])
    return folder / f"{arch}.tar", archive.image_id(config)


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, object]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code = push.main([*arguments, "--program=buildah", "--tls-verify=false"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return dict(json.loads(printed.out))


def manifest(registry: Registry, reference: str) -> dict[str, object]:
    return dict(json.loads(registry.manifests[("hello", reference)][1]))


@needs_buildah
def test_push_twice_is_one_change_and_check_mode_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built, image_id = image(tmp_path, "amd64")
    with serving() as registry:
        arguments = (str(built), f"{registry.address}/hello:1")
        assert run(tmp_path, monkeypatch, capsys, *arguments, "--dry-run")["changed"] is True
        assert registry.writes == 0
        first = run(tmp_path, monkeypatch, capsys, *arguments)
        assert first["changed"] is True
        assert manifest(registry, "1")["config"]["digest"] == f"sha256:{image_id}"  # type: ignore[index]
        assert ("hello", first["digest"]) in registry.manifests
        assert run(tmp_path, monkeypatch, capsys, *arguments) == {**first, "changed": False}
        assert run(tmp_path, monkeypatch, capsys, *arguments, "--dry-run") == {**first, "changed": False}


@needs_buildah
def test_several_architectures_become_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    images = dict(image(tmp_path, arch) for arch in ("amd64", "arm64"))
    with serving() as registry:
        run(tmp_path, monkeypatch, capsys, *map(str, images), f"{registry.address}/hello:1")
        entries = manifest(registry, "1")["manifests"]
        found = {
            entry["platform"]["architecture"]: manifest(registry, entry["digest"])["config"]["digest"]  # type: ignore[index]
            for entry in entries  # type: ignore[attr-defined]
        }
    assert found == {
        "amd64": f"sha256:{images[tmp_path / 'amd64.tar']}",
        "arm64": f"sha256:{images[tmp_path / 'arm64.tar']}",
    }


def test_a_registry_that_is_away_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the program says of it is in the message; nothing is remembered as pushed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "bin/podman"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'dial tcp: connection refused' >&2\nexit 125\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    built = str(image(tmp_path, "amd64")[0])
    assert push.main([built, "127.0.0.1:1/hello:1", "--program=podman"]) == 1
    message = capsys.readouterr().err
    assert message.startswith(
        "Error: Could not push to 127.0.0.1:1/hello:1: podman ended with 125. Is the registry right"
    )
    assert "connection refused" in message
    assert push.main([built, "127.0.0.1:1/hello:1", "--program=podman", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is True


def test_docker_loads_tags_and_pushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
case $1 in
load) echo "Loaded image: localhost/hello:1" ;;
push) echo "1: digest: sha256:{"ab" * 32} size: 528" ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    built = str(image(tmp_path, "amd64")[0])
    assert push.push(push.Push((built,), "registry.example/hello:1", "docker")) == "sha256:" + "ab" * 32
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"load --input {built}",
        "tag localhost/hello:1 registry.example/hello:1",
        "push registry.example/hello:1",
    ]
    with pytest.raises(BuildError, match="take buildah or podman"):
        push.push(push.Push((built, built), "registry.example/hello:1", "docker"))
