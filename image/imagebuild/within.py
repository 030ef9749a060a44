# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m imagebuild.within DIR``: the plugin's root file system, out of the container that this runs in.

image/Containerfile runs it in its first stage: so both ways to an image take the same parts of a system, and the same
wheels. It works on any Debian machine as well, container or not.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from imagebuild import application, bytecode, debian, runtime, wheels
from imagebuild.archive import MTIME
from imagebuild.errors import BuildError
from imagebuild.packages import Package, field
from imagebuild.tree import Entry, Tree, directory, file, link, merged_usr, with_parents
from rdma_dp.version import VERSION

_IMAGE = Path(__file__).resolve().parents[1]
_LIBRARY_FOLDERS = ("usr/lib", "usr/lib64", "usr/local/lib")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done; 1 something went wrong."""
    parser = argparse.ArgumentParser(prog="imagebuild.within", description=__doc__)
    parser.add_argument("target", type=Path, help="directory that gets the root file system; must not exist")
    target: Path = parser.parse_args(arguments).target
    try:
        python = running_python()
        tree = runtime.compose(read_packages(Path("/"), python), python, debian.native_arch())
        packages = wheels.install(_IMAGE / "requirements.txt", python.version)
        tree.update({f"{python.site}/{path}": entry for path, entry in packages.items()})
        tree.update(application.plugin(_IMAGE, _IMAGE.parent, python, VERSION))
        write(with_parents(bytecode.compile_tree(tree, sys.executable)), target)
    except BuildError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Error: {error.filename or target}: {error.strerror or error}.", file=sys.stderr)
        return 1
    return 0


def running_python() -> runtime.Python:
    """The Python that runs this; of a virtual environment, the one below it."""
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_base": sys.base_prefix}
    paths = sysconfig.get_paths(vars=base)
    return runtime.Python(
        interpreter=f"{sys.base_prefix}/bin/python{minor}".lstrip("/"),
        stdlib=paths["stdlib"].lstrip("/"),
        site=paths["purelib"].lstrip("/"),
    )


def read_packages(root: Path, python: runtime.Python) -> list[Package]:
    """Whatever an image may need of the file system below ``root``, by the Debian package that owns it.

    What belongs to no package (as Python itself in the official Python images) is in a package without a name.
    """
    owners = dict(_owners(root))
    files: dict[str, dict[str, Entry]] = {"": {}}
    for path in _candidates(root, python):
        here = root / path
        owner = owners.get(path, "")
        if here.is_symlink():
            files.setdefault(owner, {})[path] = link(str(here.readlink()))
        elif here.is_file():
            mode = 0o755 if here.stat().st_mode & 0o111 else 0o644
            files.setdefault(owner, {})[path] = file(here.read_bytes(), mode)
        elif here.is_dir():
            files.setdefault(owner, {})[path] = directory()
    status = root / "var/lib/dpkg/status"
    paragraphs = status.read_text().split("\n\n") if status.is_file() else []
    control = {field(paragraph, "Package"): paragraph.strip() + "\n" for paragraph in paragraphs}
    return [Package(name, control.get(name, ""), tree) for name, tree in sorted(files.items())]


def write(tree: Tree, target: Path) -> None:
    """Make the tree real, with the times that layers have."""
    target.mkdir(parents=True)
    for path, entry in sorted(tree.items()):
        here = target / path
        if entry.kind == "link":
            here.symlink_to(entry.target)
            continue
        if entry.kind == "directory":
            here.mkdir()
        else:
            here.write_bytes(entry.data)
        here.chmod(entry.mode)
    for path in sorted(tree, reverse=True):
        os.utime(target / path, (MTIME, MTIME), follow_symlinks=False)


def _candidates(root: Path, python: runtime.Python) -> Iterator[str]:
    """Paths that runtime.compose may choose from."""

    def below(folder: str, pattern: str) -> Iterator[str]:
        yield from (path.relative_to(root).as_posix() for path in sorted((root / folder).glob(pattern)))

    prefix = python.interpreter.rpartition("/bin/")[0]
    yield from (python.interpreter, f"{prefix}/bin/python3", "etc/os-release", "usr/lib/os-release", "etc/ld.so.cache")
    yield from (path for path in below(python.stdlib, "**/*") if runtime.is_python(path, python))
    for folder in dict.fromkeys((*_LIBRARY_FOLDERS, f"{prefix}/lib")):
        yield from below(folder, "*.so*")
        yield from below(folder, "*-linux-gnu/*.so*")
    yield from below("usr/share/doc", "*")
    yield from below("usr/share/doc", "*/copyright")
    yield from below("usr/share/common-licenses", "*")


def _owners(root: Path) -> Iterator[tuple[str, str]]:
    """Path and package, for every file that dpkg knows (deb-dpkg's info/*.list)."""
    for listing in (root / "var/lib/dpkg/info").glob("*.list"):
        package = listing.stem.partition(":")[0]
        for path in listing.read_text().splitlines():
            yield merged_usr(path.lstrip("/")), package


if __name__ == "__main__":
    sys.exit(main())
