# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file system as a value: path to entry, everything owned by root, no times."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Debian and its derivatives have these as links into usr/ (merged /usr).
MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")


@dataclass(frozen=True)
class Entry:
    """One file, directory or symbolic link."""

    kind: Literal["file", "directory", "link"]
    mode: int
    data: bytes = b""  # of a file
    target: str = ""  # of a link


# Paths are relative to the root, without a leading slash: "usr/bin/python3".
Tree = Mapping[str, Entry]


def file(data: bytes | str, mode: int = 0o644) -> Entry:
    """A regular file."""
    return Entry("file", mode, data=data.encode() if isinstance(data, str) else data)


def directory(mode: int = 0o755) -> Entry:
    """A directory."""
    return Entry("directory", mode)


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry("link", 0o777, target=target)


def read_directory(top: Path, keep: Callable[[str], bool] = lambda path: True) -> dict[str, Entry]:
    """The files and links below ``top`` whose path relative to it ``keep`` accepts.

    Modes become 0644, or 0755 for executables, whatever the umask of the checkout was.
    """
    found: dict[str, Entry] = {}
    for here in sorted(top.rglob("*")):
        path = here.relative_to(top).as_posix()
        if not keep(path):
            continue
        if here.is_symlink():
            found[path] = link(str(here.readlink()))
        elif here.is_file():
            found[path] = file(here.read_bytes(), 0o755 if here.stat().st_mode & 0o111 else 0o644)
    return found


def below(prefix: str, tree: Tree) -> dict[str, Entry]:
    """The tree, moved under a directory."""
    return {f"{prefix}/{path}": entry for path, entry in tree.items()}


def with_parents(tree: Tree) -> dict[str, Entry]:
    """The tree and every directory above its entries that it does not name itself."""
    full = dict(tree)
    for path in tree:
        parent = posixpath.dirname(path)
        while parent and parent not in full:
            full[parent] = directory()
            parent = posixpath.dirname(parent)
    return full


def merged_usr(path: str) -> str:
    """Where a path is once /bin, /lib and their like are links into /usr."""
    first, _unused, rest = path.partition("/")
    return f"usr/{first}/{rest}" if first in MERGED and rest else path


def link_target(path: str, entry: Entry) -> str:
    """The path that a link points to, from the root of its tree."""
    return merged_usr(posixpath.normpath(posixpath.join("/", posixpath.dirname(path), entry.target)).lstrip("/"))


def follow(tree: Tree, path: str) -> Iterable[str]:
    """The path itself, and what it leads to while it is a link, as far as the tree has it."""
    for _unused in range(20):
        entry = tree.get(path)
        if entry is None:
            return
        yield path
        if entry.kind != "link":
            return
        path = link_target(path, entry)


def unpacked_bytes(tree: Tree) -> int:
    """The sum of all files' sizes."""
    return sum(len(entry.data) for entry in tree.values())
