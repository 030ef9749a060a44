# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The upper layers: the plugin with its generated gRPC code, and the test Job's script with a shell."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from imagebuild.errors import BuildError, run
from imagebuild.packages import Package
from imagebuild.runtime import Python
from imagebuild.tree import Entry, below, file, link, read_directory
from imagebuild.wheels import pip_install

_GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
# Isolated (-I): neither the environment nor the working directory changes what is imported; -B: the root is read-only.
_PROGRAM = """#!/{interpreter} -IB
import sys

from rdma_dp.cli import main

sys.exit(main())
"""
# What a test Job's command line may use.
_APPLETS = (
    "cat",
    "df",
    "echo",
    "env",
    "grep",
    "head",
    "hostname",
    "id",
    "ip",
    "ls",
    "mount",
    "ping",
    "ps",
    "sh",
    "sleep",
    "tail",
)


def plugin(image: Path, project: Path, python: Python, version: str) -> dict[str, Entry]:
    """The package ``rdma_dp`` as the image has it, its program and its licence.

    :param image: the directory that holds ``rdma_dp``.
    :param project: the directory that holds ``proto`` and LICENSE.
    """
    package = {path: entry for path, entry in package_sources(image).items() if path.endswith((".py", "py.typed"))}
    package.update(generate(project / "proto", image / "requirements-build.txt"))
    metadata = f"Metadata-Version: 2.4\nName: rdma-dp\nVersion: {version}\nLicense-Expression: GPL-3.0-or-later\n"
    return {
        **below(python.site, package),
        f"{python.site}/rdma_dp-{version}.dist-info/METADATA": file(metadata),
        "usr/local/bin/rdma-dp": file(_PROGRAM.format(interpreter=python.interpreter), 0o755),
        "usr/share/doc/rdma-dp/copyright": file((project / "LICENSE").read_bytes()),
    }


def package_sources(image: Path) -> dict[str, Entry]:
    """The files of ``rdma_dp`` that people wrote: a checkout may hold generated ones too, of another time."""
    sources = read_directory(image / "rdma_dp", lambda path: "__pycache__" not in path and not _GENERATED.search(path))
    if not sources:
        raise BuildError(f"There is no package rdma_dp in {image}.")
    return below("rdma_dp", {path: file(entry.data) for path, entry in sources.items()})


def proto_files(proto: Path) -> list[Path]:
    """The protocol definitions, sorted.

    :raises BuildError: when there is none.
    """
    found = sorted(proto.rglob("*.proto"))
    if not found:
        raise BuildError(f"There are no .proto files in {proto}.")
    return found


def generate(proto: Path, requirements: Path) -> dict[str, Entry]:
    """gRPC code of the .proto files, by the pinned grpcio-tools: this Python's, or else one from the index.

    :raises BuildError: when the tools can't be had, or refuse a file.
    """
    with tempfile.TemporaryDirectory(prefix="imagebuild-") as scratch:
        tools, output = Path(scratch) / "tools", Path(scratch) / "output"
        output.mkdir()
        env = dict(os.environ)
        if not _has_pinned_tools(requirements):
            pip_install(requirements, tools)
            env["PYTHONPATH"] = str(tools)
        run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", "-I", str(proto)),
                *(f"--python_out={output}", f"--grpc_python_out={output}", *map(str, proto_files(proto))),
            ],
            "generate the gRPC code",
            f"The definitions are in {proto}.",
            env=env,
        )
        return {path: file(entry.data) for path, entry in read_directory(output).items()}


def test_job(script: Path, packages: Sequence[Package], python: Python) -> dict[str, Entry]:
    """What the ACK page's Jobs run (``sh -c "python /workspace/benchmark.py"``), for the layer above Python.

    :raises BuildError: when the packages lack busybox-static.
    """
    busybox = next((package for package in packages if package.name == "busybox-static"), None)
    if busybox is None or "usr/bin/busybox" not in busybox.files:
        raise BuildError("Debian's packages brought no busybox-static.")
    licence = "usr/share/doc/busybox-static/copyright"
    return {
        "usr/bin/busybox": busybox.files["usr/bin/busybox"],
        **{f"usr/bin/{applet}": link("busybox") for applet in _APPLETS},
        "usr/bin/python": link(f"/{python.interpreter}"),
        "workspace/benchmark.py": file(script.read_bytes()),
        licence: busybox.files[licence],
        "var/lib/dpkg/status.d/busybox-static": file(busybox.control),
    }


def _has_pinned_tools(requirements: Path) -> bool:
    pinned = re.search(r"^grpcio-tools==(\S+)", requirements.read_text(), re.MULTILINE)
    try:
        return pinned is not None and importlib.metadata.version("grpcio-tools") == pinned[1]
    except importlib.metadata.PackageNotFoundError:
        return False
