# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one image that every sandbox has: busybox, as a docker-archive written by hand, the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import struct
import tarfile
from pathlib import Path

from tests.sandbox.errors import SandboxError

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_APPLETS = (
    *("cat", "echo", "env", "grep", "id", "ip", "ls", "mount", "nc", "nslookup", "ping", "ps", "sh", "sleep", "stat"),
    *("test", "touch", "true", "wget"),
)


def write_base_image(target: Path, name: str, busybox: Path = Path("/bin/busybox")) -> None:
    """Write an image called ``name`` whose command sleeps.

    :raises SandboxError: busybox is missing or needs libraries.
    """
    if not busybox.exists():
        raise SandboxError(f"{busybox} is missing. Install the package busybox-static: make deps")
    if needs_loader(busybox.read_bytes()):
        raise SandboxError(f"{busybox} needs libraries. Install busybox-static instead of busybox: make deps")
    layer = _layer(busybox.read_bytes())
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Cmd": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "tests/sandbox/image.py"}],
        },
        sort_keys=True,
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file_name, content in (
            ("layer.tar", layer),
            ("config.json", config),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            _add(archive, file_name, content)


def needs_loader(elf: bytes) -> bool:
    """True for a 64-bit ELF program that asks for a dynamic loader: it has a program header of type PT_INTERP (3)."""
    (offset,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, offset + number * size)[0] == 3 for number in range(count))


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as layer:
        for directory, mode in (("bin", 0o755), ("tmp", 0o1777), ("etc", 0o755)):
            _add(layer, directory, None, mode)
        _add(layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        _add(layer, "bin/busybox", busybox, 0o755)
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
            layer.addfile(link)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes | None, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if content is None:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    else:
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
