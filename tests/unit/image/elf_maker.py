# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ELF files as small as the loader's view of them: headers, interpreter, needed libraries (elf(5))."""

from __future__ import annotations

import struct

AMD64, ARM64, RISCV = 62, 183, 243
# Libraries are mapped away from their place in the file, as linkers do.
_BASE = 0x400000


def make(needed: tuple[str, ...] = (), interpreter: str = "", machine: int = AMD64) -> bytes:
    """An ELF file that needs these libraries."""
    headers = 3 if interpreter else 2
    start = 64 + headers * 56
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    offsets = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in needed]
    text = interpreter.encode() + b"\0"
    strings_at = start + len(text)
    dynamic_at = strings_at + len(strings)
    tags = [(1, offset) for offset in offsets] + [(5, _BASE + strings_at), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    end = dynamic_at + len(dynamic)

    def header(kind: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, 4, offset, _BASE + offset, _BASE + offset, size, size, 8)

    programs = header(1, 0, end) + header(2, dynamic_at, len(dynamic))
    if interpreter:
        programs += header(3, start, len(text))
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    first = ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, headers, 0, 0, 0)
    return first + programs + text + strings + dynamic
