# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which shared libraries a program needs: just enough of the ELF format (elf(5)), 64 bit little endian."""

from __future__ import annotations

import struct
from dataclasses import dataclass

MACHINES = {62: "amd64", 183: "arm64"}
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB = 1, 5


@dataclass(frozen=True)
class Elf:
    """What the dynamic loader reads of a program or library."""

    machine: str  # Debian's name of the architecture, "" for any other
    interpreter: str  # "/lib64/ld-linux-x86-64.so.2"; "" for a library
    needed: tuple[str, ...]  # sonames


def parse(data: bytes) -> Elf | None:
    """Read an ELF file; None for anything else."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (machine,) = struct.unpack_from("<H", data, 18)
    (header_offset,) = struct.unpack_from("<Q", data, 32)
    header_size, header_count = struct.unpack_from("<HH", data, 54)
    headers = [
        # p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz
        struct.unpack_from("<IIQQQQ", data, header_offset + number * header_size)
        for number in range(header_count)
    ]

    def string_at(offset: int) -> str:
        return data[offset : data.index(b"\0", offset)].decode()

    interpreter = next((string_at(header[2]) for header in headers if header[0] == _PT_INTERP), "")
    tags: list[tuple[int, int]] = []
    for header in headers:
        if header[0] == _PT_DYNAMIC:
            tags = list(struct.iter_unpack("<qQ", data[header[2] : header[2] + header[5] // 16 * 16]))
    table = next((value for tag, value in tags if tag == _DT_STRTAB), 0)
    for kind, _unused, offset, address, _unused, size in headers:
        if kind == _PT_LOAD and address <= table < address + size:
            table += offset - address
            break
    needed = tuple(string_at(table + value) for tag, value in tags if tag == _DT_NEEDED)
    return Elf(MACHINES.get(machine, ""), interpreter, needed)
