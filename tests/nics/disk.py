# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes trees to disk, and changes them as the kernel would: readers see only states that a real sysfs has."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .tree import Directory, Entry, File, Link, Node, Tree, directories

# A device appears from the inside out: its directory, then the class links that lead to it, its character devices, and
# when udev has seen those, the nodes. It disappears in the reverse order.
_STAGES = ("sys/devices/", "sys/bus/", "sys/module/", "sys/class/net/", "sys/class/infiniband/", "sys/class/", "dev/")


def change(root: Path, old: Tree, new: Tree) -> None:
    """Turns the files of `old` into those of `new`. PermissionError where device nodes are to be made without root."""
    removed = [path for path in old if path not in new]
    for path in sorted(removed, key=lambda path: (_stage(path), path), reverse=True):
        if not isinstance(old[path], Directory):
            (root / path).unlink(missing_ok=True)
    kept = directories(new) | {path for path, entry in new.items() if isinstance(entry, Directory)}
    emptied = (directories(old) | {path for path in removed if isinstance(old[path], Directory)}) - kept
    for path in sorted(emptied, key=lambda path: path.count("/"), reverse=True):
        (root / path).rmdir()
    for path in sorted(kept):
        (root / path).mkdir(parents=True, exist_ok=True)
    changed = [path for path, entry in new.items() if old.get(path) != entry]
    for path in sorted(changed, key=lambda path: (_stage(path), path)):
        if not isinstance(new[path], Directory):
            _put(str(root), path, new[path], replaced=path in old)


def _stage(path: str) -> int:
    return next((number for number, prefix in enumerate(_STAGES) if path.startswith(prefix)), 0)


def _put(root: str, path: str, entry: Entry, replaced: bool) -> None:
    """Makes one file; an old one gives way in one step, by way of a name beside the trees."""
    made = f"{root}/.new" if replaced else f"{root}/{path}"
    if isinstance(entry, File):
        with open(made, "w", encoding="utf-8") as file:
            file.write(entry.content)
    elif isinstance(entry, Link):
        os.symlink(entry.target, made)
    elif isinstance(entry, Node):
        os.mknod(made, stat.S_IFCHR | entry.mode, os.makedev(entry.major, entry.minor))
        os.chmod(made, entry.mode)  # whatever the umask
    if replaced:
        os.replace(made, f"{root}/{path}")
