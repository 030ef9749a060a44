# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program needs is read as the dynamic loader reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from imagebuild import elf
from tests.unit.image import elf_maker


def test_needed_libraries_interpreter_and_machine() -> None:
    data = elf_maker.make(("libc.so.6", "libssl.so.3"), "/lib64/ld-linux-x86-64.so.2")
    assert elf.parse(data) == elf.Elf("amd64", "/lib64/ld-linux-x86-64.so.2", ("libc.so.6", "libssl.so.3"))


@pytest.mark.parametrize(
    ("machine", "name"), [(elf_maker.AMD64, "amd64"), (elf_maker.ARM64, "arm64"), (elf_maker.RISCV, "")]
)
def test_machine_has_debians_name(machine: int, name: str) -> None:
    parsed = elf.parse(elf_maker.make(machine=machine))
    assert parsed is not None
    assert parsed.machine == name


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01", b"\x7fEL"])
def test_anything_else_is_no_elf_file(data: bytes) -> None:
    assert elf.parse(data) is None


def test_a_real_program() -> None:
    parsed = elf.parse(Path(sys.executable).resolve().read_bytes())
    assert parsed is not None
    assert "libc.so.6" in parsed.needed
    assert Path(parsed.interpreter).exists()
