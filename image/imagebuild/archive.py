# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers and images as tar files, byte for byte the same for the same contents.

The image is a docker-archive: what ``docker load``, ``podman load``, ``buildah pull docker-archive:`` and
``ctr images import`` read. Its ID is the SHA-256 of its configuration (OCI image-spec, config.md).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imagebuild.tree import Tree

# Files bear no time of the build. 1980 is the oldest that zip files can hold, so tools that make some of them work.
MTIME = 315532800


def layer(tree: Tree) -> bytes:
    """A tar file of the tree, sorted by path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(tree.items()):
            info = tarfile.TarInfo(path)
            info.mode = entry.mode
            info.mtime = MTIME
            info.uname = info.gname = "root"
            if entry.kind == "file":
                info.size = len(entry.data)
                tar.addfile(info, io.BytesIO(entry.data))
            else:
                info.type = tarfile.DIRTYPE if entry.kind == "directory" else tarfile.SYMTYPE
                info.linkname = entry.target
                tar.addfile(info)
    return buffer.getvalue()


def config(arch: str, created: str, diff_ids: Sequence[str], history: Sequence[str], settings: dict[str, Any]) -> bytes:
    """The image's configuration.

    :param created: RFC 3339.
    :param settings: what a container of it gets: ``Entrypoint``, ``Env``, ``Labels`` and so on.
    """
    return json.dumps(
        {
            "architecture": arch,
            **({"variant": "v8"} if arch == "arm64" else {}),
            "os": "linux",
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}" for diff_id in diff_ids]},
            "history": [{"created": created, "created_by": about} for about in history],
        },
        sort_keys=True,
    ).encode()


def write_image(target: Path, name: str, image_config: bytes, layers: Sequence[Path]) -> None:
    """Write the archive, whole or not at all.

    :param layers: tar files, lowest first, as in the configuration.
    """
    config_name = f"{image_id(image_config)}.json"
    layer_names = [f"layer-{number}.tar" for number, _unused in enumerate(layers)]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": layer_names}]).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.partial")
    try:
        with tarfile.open(scratch, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for member, data in (("manifest.json", manifest), (config_name, image_config)):
                tar.addfile(_member(member, len(data)), io.BytesIO(data))
            for member, path in zip(layer_names, layers, strict=True):
                with path.open("rb") as stream:
                    tar.addfile(_member(member, path.stat().st_size), stream)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def image_id(image_config: bytes) -> str:
    """The image's ID, without ``sha256:``."""
    return hashlib.sha256(image_config).hexdigest()


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mtime = MTIME
    return info
