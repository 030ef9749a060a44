# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiles the Python files of a tree, so that a read-only container starts fast.

The .pyc files are of the kind "unchecked hash": valid whatever the times of the files are. They are the same for all
architectures, so an arm64 image is compiled here too, by a Python of the image's own minor version.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from imagebuild.errors import BuildError, run
from imagebuild.tree import Entry, Tree, file

# Runs in the other Python: paths on stdin, relative to the directory in argv.
_SCRIPT = """
import importlib.util, py_compile, sys
top = sys.argv[1]
for path in sys.stdin.read().splitlines():
    source = top + "/" + path
    py_compile.compile(source, importlib.util.cache_from_source(source), dfile="/" + path, doraise=True,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""


def find_python(version: str) -> str:
    """A program that compiles for Python ``version`` ("3.11"): Debian's, as in the image, or the one that runs this.

    :raises BuildError: when the machine has none.
    """
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = (
        f"/usr/bin/python{version}",
        sys.executable if running == version else "",
        shutil.which(f"python{version}"),
    )
    for candidate in candidates:
        if candidate and Path(candidate).exists():
            return candidate
    raise BuildError(
        f"The image has Python {version}, and compiling its files takes a Python {version} on this machine, "
        f"which has none (this is {running}). Install python{version}, or build image/Containerfile with podman, "
        "docker or buildah."
    )


def describe(python: str) -> str:
    """The exact version of a Python, as a part of keys."""
    command = [python, "-s", "-S", "-c", "import sys; print(sys.version)"]
    return run(command, "ask for the version of Python", "Check the installation.").decode().strip()


def compile_tree(tree: Tree, python: str) -> dict[str, Entry]:
    """The tree and a .pyc for each .py file in it.

    :raises BuildError: when a file does not compile.
    """
    sources = sorted(path for path, entry in tree.items() if path.endswith(".py") and entry.kind == "file")
    compiled = dict(tree)
    with tempfile.TemporaryDirectory(prefix="imagebuild-") as scratch:
        top = Path(scratch)
        for path in sources:
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_bytes(tree[path].data)
        run(
            [python, "-s", "-S", "-c", _SCRIPT, scratch],
            "compile the Python files",
            f"They are compiled by {python}.",
            # Sets are written in the order of their hashes.
            env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
            stdin="\n".join(sources).encode(),
        )
        for pyc in sorted(top.rglob("*.pyc")):
            compiled[pyc.relative_to(top).as_posix()] = file(pyc.read_bytes())
    return compiled
