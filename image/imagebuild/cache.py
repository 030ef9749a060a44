# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finished layers in the user's cache directory, each under a key made of everything that went into it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from imagebuild import archive
from imagebuild.tree import Tree, unpacked_bytes, with_parents

_KEEP = 30 * 86400  # s without use


def digest(**inputs: object) -> str:
    """A key that changes when any of the inputs does. Inputs are anything that JSON can hold."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's contents."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Layer:
    """One layer of an image, as a tar file."""

    path: Path
    diff_id: str  # SHA-256 of the tar file
    unpacked: int  # bytes
    about: str  # what is in it, for the image's history


class Cache:
    """A directory of layers and downloads; several builds may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_user(cls) -> Cache:
        """The cache below XDG_CACHE_HOME, or ~/.cache."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(home / "lingjun-rdma" / "image")

    def layer(self, key: str, about: str, make: Callable[[], Tree], anew: bool = False) -> Layer:
        """The layer of this key: the stored one when it is whole, else a new one of the tree that ``make`` yields."""
        tar = self.folder / "layers" / f"{key}.tar"
        facts = tar.with_suffix(".json")
        if not anew and (stored := self._stored(tar, facts, about)):
            return stored
        tree = with_parents(make())
        tar.parent.mkdir(parents=True, exist_ok=True)
        replace(tar, archive.layer(tree))
        layer = Layer(tar, file_digest(tar), unpacked_bytes(tree), about)
        replace(facts, json.dumps({"diff_id": layer.diff_id, "unpacked": layer.unpacked}).encode())
        return layer

    def drop_unused(self) -> None:
        """Remove layers that no build has used for a month."""
        oldest = time.time() - _KEEP
        for path in (self.folder / "layers").glob("*.*"):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    @staticmethod
    def _stored(tar: Path, facts: Path, about: str) -> Layer | None:
        try:
            known = json.loads(facts.read_bytes())
            layer = Layer(tar, file_digest(tar), int(known["unpacked"]), about)
        except (OSError, ValueError, KeyError):
            return None
        if layer.diff_id != known["diff_id"]:
            return None
        os.utime(tar)
        os.utime(facts)
        return layer


def replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(data)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
