# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From inputs to image archives: three layers, each built only when something that goes into it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from imagebuild import application, archive, bytecode, debian, runtime, wheels
from imagebuild.cache import Cache, Layer, digest, file_digest, replace
from imagebuild.packages import Package
from imagebuild.source import Source
from imagebuild.tree import Tree, read_directory

PLUGIN, TEST = "plugin", "test"
_FILES = {PLUGIN: "rdma-dp", TEST: "rdma-test"}
_TITLES = {
    PLUGIN: (
        "rdma-dp",
        "Kubernetes device plugin for RDMA NICs: shared and exclusive modes, health, live configuration",
    ),
    TEST: ("rdma-test", "Shows what a pod got of its node's RDMA NICs, and fails when something is missing"),
}


@dataclass(frozen=True)
class Project:
    """The directories that hold the inputs."""

    image: Path  # rdma_dp, requirements, imagebuild
    top: Path  # proto, LICENSE


@dataclass(frozen=True)
class Request:
    """One image to have."""

    target: str  # PLUGIN | TEST
    arch: str  # Debian's name
    name: str  # "localhost/lingjun/rdma-dp:0.1.0"
    archive: Path


@dataclass(frozen=True)
class Result:
    """An image that is there. Kept beside the archive as JSON: so the next run knows whether anything changed."""

    target: str
    arch: str
    name: str
    archive: str
    archive_sha256: str
    archive_bytes: int
    unpacked_bytes: int
    image_id: str  # "sha256:…"
    version: str
    revision: str
    key: str
    changed: bool = False  # this run built it


def default_name(target: str, version: str) -> str:
    """The image's name when the caller gives none. ``localhost`` is no registry: nobody pulls it by accident."""
    return f"localhost/lingjun/{_FILES[target]}:{version}"


def archive_path(output: Path, target: str, arch: str) -> Path:
    """Where an image goes; other architectures than this machine's have theirs in the file's name."""
    suffix = "" if arch == debian.native_arch() else f"-{arch}"
    return output / f"{_FILES[target]}{suffix}.tar"


class Builder:
    """Builds images for one architecture."""

    def __init__(
        self,
        project: Project,
        source: Source,
        version: str,
        cache: Cache,
        download: debian.Download,
        arch: str,
        say: Callable[[str], None],
        force: bool = False,
    ) -> None:
        """
        :param say: gets a line for each step that takes time.
        :param force: build every layer anew, of the same packages.
        """
        self._project, self._source, self._version = project, source, version
        self._cache, self._download, self._arch = cache, download, arch
        self._say, self._force = say, force

    def current(self, request: Request) -> Result | None:
        """The image of an earlier run, when it is whole and no input changed since."""
        try:
            facts: dict[str, Any] = json.loads(_facts_path(request.archive).read_text())
            known = Result(**{**facts, "changed": False, "archive": str(request.archive)})
            if known.key == self._key(request) and known.archive_sha256 == file_digest(request.archive):
                return known
        except (OSError, ValueError, TypeError):
            pass
        return None

    def build(self, request: Request) -> Result:
        """The image, built if it has to be.

        :raises BuildError: naming the step that failed.
        """
        if not self._force and (known := self.current(request)):
            return known
        layers = self._plugin_layers() if request.target == PLUGIN else self._test_layers()
        config = archive.config(
            self._arch,
            self._source.created,
            [layer.diff_id for layer in layers],
            [layer.about for layer in layers],
            self._settings(request.target),
        )
        archive.write_image(request.archive, request.name, config, [layer.path for layer in layers])
        result = Result(
            target=request.target,
            arch=self._arch,
            name=request.name,
            archive=str(request.archive),
            archive_sha256=file_digest(request.archive),
            archive_bytes=request.archive.stat().st_size,
            unpacked_bytes=sum(layer.unpacked for layer in layers),
            image_id=f"sha256:{archive.image_id(config)}",
            version=self._version,
            revision=self._source.revision,
            key=self._key(request),
            changed=True,
        )
        replace(_facts_path(request.archive), json.dumps(asdict(result), indent=2).encode() + b"\n")
        return result

    def _plugin_layers(self) -> list[Layer]:
        """What changes least is lowest: a new version of the plugin transfers the top layer only."""
        requirements = self._project.image / "requirements.txt"
        return [
            self._base,
            self._layer(
                "wheels",
                f"Python packages of {requirements.name}",
                lambda: self._site(self._wheels(requirements)),
                download=self._download.digest,
                requirements=requirements.read_text(),
            ),
            self._layer(
                "plugin",
                f"rdma-dp {self._version}",
                lambda: self._compile(
                    application.plugin(self._project.image, self._project.top, self._python, self._version)
                ),
                download=self._download.digest,
                inputs=self._plugin_inputs,
            ),
        ]

    def _test_layers(self) -> list[Layer]:
        script = self._project.image / "test" / "benchmark.py"
        return [
            self._base,
            self._layer(
                "test",
                "The test Job's script, and busybox",
                lambda: application.test_job(script, self._packages, self._python),
                download=self._download.digest,
                script=script.read_text(),
            ),
        ]

    @cached_property
    def _base(self) -> Layer:
        return self._layer(
            "base",
            f"Debian {self._download.suite}: Python and what it needs",
            lambda: self._compile(runtime.compose(self._packages, self._python, self._arch)),
            download=self._download.digest,
        )

    def _layer(self, kind: str, about: str, make: Callable[[], Tree], **inputs: object) -> Layer:
        def announced() -> Tree:
            self._say(f"{self._arch}: building the layer {kind}")
            return make()

        key = digest(kind=kind, arch=self._arch, version=self._version, common=self._common, **inputs)
        return self._cache.layer(f"{kind}-{self._arch}-{key[:16]}", about, announced, anew=self._force)

    def _wheels(self, requirements: Path) -> Tree:
        options = wheels.platform_options(self._arch, wheels.glibc_minor(self._packages))
        return wheels.install(requirements, self._python.version, options)

    def _site(self, packages: Tree) -> Tree:
        return self._compile({f"{self._python.site}/{path}": entry for path, entry in packages.items()})

    def _compile(self, tree: Tree) -> Tree:
        return bytecode.compile_tree(tree, self._compiler)

    @cached_property
    def _packages(self) -> list[Package]:
        self._say(f"{self._arch}: reading the Debian packages")
        return debian.read(self._download)

    @cached_property
    def _python(self) -> runtime.Python:
        return runtime.debian_python(debian.python_version(self._download))

    @cached_property
    def _compiler(self) -> str:
        return bytecode.find_python(self._python.version)

    @cached_property
    def _common(self) -> dict[str, str]:
        """Inputs of every layer: the code that builds, and the Python that compiles."""
        code = read_directory(self._project.image / "imagebuild", lambda path: path.endswith(".py"))
        return {"code": _digest_of(code), "compiler": bytecode.describe(self._compiler)}

    @cached_property
    def _plugin_inputs(self) -> str:
        proto = application.proto_files(self._project.top / "proto")
        return digest(
            package=_digest_of(application.package_sources(self._project.image)),
            proto=[(path.name, file_digest(path)) for path in proto],
            tools=file_digest(self._project.image / "requirements-build.txt"),
            licence=file_digest(self._project.top / "LICENSE"),
        )

    def _key(self, request: Request) -> str:
        inputs = {
            PLUGIN: lambda: [self._plugin_inputs, file_digest(self._project.image / "requirements.txt")],
            TEST: lambda: [file_digest(self._project.image / "test" / "benchmark.py")],
        }[request.target]()
        return digest(
            name=request.name,
            target=request.target,
            arch=self._arch,
            download=self._download.digest,
            source=asdict(self._source),
            version=self._version,
            common=self._common,
            inputs=inputs,
        )

    def _settings(self, target: str) -> dict[str, Any]:
        """What a container of the image gets unless its pod says otherwise."""
        title, description = _TITLES[target]
        labels = {
            "org.opencontainers.image.title": title,
            "org.opencontainers.image.description": description,
            "org.opencontainers.image.version": self._version,
            "org.opencontainers.image.licenses": "GPL-3.0-or-later",
            "org.opencontainers.image.created": self._source.created,
            **({"org.opencontainers.image.revision": self._source.revision} if self._source.revision else {}),
        }
        start: dict[str, Any] = {"Entrypoint": ["/usr/local/bin/rdma-dp"]}
        if target == TEST:
            start = {"Cmd": ["python", "/workspace/benchmark.py"]}
        environment = ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8"]
        return {**start, "Env": environment, "Labels": labels, "User": "0:0", "WorkingDir": "/"}


def _facts_path(image_archive: Path) -> Path:
    return image_archive.with_suffix(".json")


def _digest_of(tree: Tree) -> str:
    return digest(files=[(path, hashlib.sha256(entry.data).hexdigest()) for path, entry in sorted(tree.items())])
