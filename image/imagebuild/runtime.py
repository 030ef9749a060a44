# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lowest layer: what Python needs of a Debian system, and nothing else.

No shell, no package manager, no program but the interpreter. Libraries come in because something that is kept needs
them, so a package that a later Debian adds or splits finds its place by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from imagebuild import elf
from imagebuild.errors import BuildError
from imagebuild.packages import Package
from imagebuild.tree import MERGED, Entry, Tree, directory, file, follow, link, link_target

# What compiled wheels may need beside the C library; the build refuses a wheel that needs more.
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1")

# Parts of the standard library that no service uses: patterns of paths below it.
_UNUSED = (
    "__pycache__/*",
    "*/__pycache__/*",
    "site-packages/*",
    "dist-packages/*",
    "test/*",
    "*/test/*",
    "*/tests/*",
    "config-*",
    "ensurepip/*",
    "idlelib/*",
    "lib2to3/*",
    "distutils/*",
    "tkinter/*",
    "turtle.py",
    "turtledemo/*",
    "pydoc_data/*",
    "venv/*",
    "curses/*",
    "dbm/*",
    "sqlite3/*",
    "msilib/*",
    "sitecustomize.py",
    "EXTERNALLY-MANAGED",
    "*.a",
    # extension modules: terminals, databases, East Asian encodings, tests
    *(
        f"lib-dynload/{name}*"
        for name in (
            *("_curses", "readline", "_dbm", "_gdbm", "_sqlite3", "_tkinter", "nis", "ossaudiodev"),
            *(
                "_codecs_cn",
                "_codecs_hk",
                "_codecs_iso2022",
                "_codecs_jp",
                "_codecs_kr",
                "_codecs_tw",
                "_multibytecodec",
            ),
            *("_ctypes_test", "_test", "_xx", "xx"),
        )
    ),
)

_LIBRARY_FOLDER = re.compile(r"usr/(local/)?lib(64)?(/[a-z0-9_]+-linux-gnu)?")
_PASSWD = "root:x:0:0:root:/root:/nonexistent\nnobody:x:65534:65534:nobody:/nonexistent:/nonexistent\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


@dataclass(frozen=True)
class Python:
    """Where a Python is, relative to the root."""

    interpreter: str  # "usr/bin/python3.11"
    stdlib: str  # "usr/lib/python3.11"
    site: str  # "usr/local/lib/python3.11/dist-packages": where packages go that are not Debian's

    @property
    def version(self) -> str:
        """Major and minor: "3.11"."""
        return self.interpreter.rpartition("python")[2]


def debian_python(version: str) -> Python:
    """Where Debian has its Python of this version ("3.11")."""
    return Python(
        f"usr/bin/python{version}", f"usr/lib/python{version}", f"usr/local/lib/python{version}/dist-packages"
    )


def compose(packages: Sequence[Package], python: Python, arch: str) -> dict[str, Entry]:
    """The root file system for ``python``, its sources not compiled yet.

    :param arch: Debian's name of the architecture.
    :raises BuildError: when a library is missing or built for another architecture.
    """
    everything: dict[str, Entry] = {}
    owner: dict[str, Package] = {}
    for package in packages:
        for path, entry in package.files.items():
            everything[path] = entry
            owner[path] = package

    kept = {path for path, entry in everything.items() if entry.kind != "directory" and is_python(path, python)}
    if python.interpreter not in kept:
        raise BuildError(f"The packages hold no /{python.interpreter}.")
    kept |= _libraries(everything, kept, python, arch)
    kept |= {path for path in everything if path in ("etc/os-release", "usr/lib/os-release", "etc/ld.so.cache")}
    owners = {owner[path].name: owner[path] for path in kept}
    for name in sorted(owners):
        kept |= set(_copyright(everything, name))
    kept |= {path for path in everything if path.startswith("usr/share/common-licenses/")}

    tree = {path: everything[path] for path in kept}
    tree |= {
        path: replace(tree[path], mode=0o644) for path in kept if path.endswith(".py") and tree[path].kind == "file"
    }
    tree.update(_frame())
    # Image scanners read here which Debian packages an image without dpkg is made of.
    for name, package in owners.items():
        if name:
            tree[f"var/lib/dpkg/status.d/{name}"] = file(package.control)
    return tree


def refuse_unknown_libraries(tree: Tree) -> None:
    """Compiled files of wheels may need only what the lowest layer promises.

    :raises BuildError: naming file and library.
    """
    own = {path.rpartition("/")[2] for path in tree}
    for path, entry in sorted(tree.items()):
        parsed = elf.parse(entry.data)
        for soname in parsed.needed if parsed else ():
            if soname not in LIBRARIES and soname not in own and not soname.startswith("ld-linux"):
                raise BuildError(
                    f"{path} needs {soname}, which the image does not have: add it to LIBRARIES in "
                    "imagebuild/runtime.py and its package to WANTED in imagebuild/debian.py."
                )


def is_python(path: str, python: Python) -> bool:
    """Whether a path is of the interpreter or of the used part of its standard library."""
    if path in (python.interpreter, f"{python.interpreter.rpartition('/')[0]}/python3"):
        return True
    if not path.startswith(python.stdlib + "/"):
        return False
    inside = path[len(python.stdlib) + 1 :]
    return not any(fnmatchcase(inside, pattern) for pattern in _UNUSED)


def _libraries(everything: Tree, kept: Iterable[str], python: Python, arch: str) -> set[str]:
    """The shared libraries that the kept files need, the loader, and links on the way to them."""
    beside_python = f"{python.interpreter.rpartition('/bin/')[0]}/lib"
    where: dict[str, str] = {}
    for path in sorted(everything):
        folder, _unused, name = path.rpartition("/")
        if ".so" in name and (folder == beside_python or _LIBRARY_FOLDER.fullmatch(folder)):
            where.setdefault(name, path)
    found: set[str] = set()
    wanted = [(soname, "the image") for soname in LIBRARIES]
    looked_at: set[str] = set()

    def look_at(path: str) -> None:
        parsed = elf.parse(everything[path].data) if path not in looked_at else None
        looked_at.add(path)
        if parsed is None:
            return
        if parsed.machine != arch:
            raise BuildError(f"/{path} is for {parsed.machine or 'an unknown machine'}, not for {arch}.")
        loader = (parsed.interpreter.rpartition("/")[2],) if parsed.interpreter else ()
        wanted.extend((soname, f"/{path}") for soname in (*parsed.needed, *loader))

    for path in sorted(kept):
        look_at(path)
    while wanted:
        soname, needed_by = wanted.pop()
        if soname not in where:
            raise BuildError(f"{needed_by} needs the library {soname}, which none of the packages has.")
        for path in follow(everything, where[soname]):
            found.add(path)
            look_at(path)
    # The kernel opens the loader by the path in the interpreter's header: lib64/ld-linux-x86-64.so.2.
    return found | {path for path in everything if path.startswith("usr/lib64/ld-linux")}


def _copyright(everything: Tree, package: str) -> Iterable[str]:
    """Where a package's licence is; its documentation may be a link to another package's."""
    folder = f"usr/share/doc/{package}"
    entry = everything.get(folder)
    if entry is not None and entry.kind == "link":
        yield folder
        folder = link_target(folder, entry)
    yield from follow(everything, f"{folder}/copyright")


def _frame() -> dict[str, Entry]:
    """Directories and files that every container expects."""
    return {
        **{name: link(f"usr/{name}") for name in MERGED if name in ("bin", "lib", "lib64", "sbin")},
        **{name: directory() for name in ("dev", "proc", "run", "sys", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin")},
        "root": directory(0o700),
        "tmp": directory(0o1777),
        "etc/passwd": file(_PASSWD),
        "etc/group": file(_GROUP),
        "etc/nsswitch.conf": file("passwd: files\ngroup: files\nhosts: files dns\n"),
    }
