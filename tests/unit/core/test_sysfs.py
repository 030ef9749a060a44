# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads of sysfs: bounded, never waiting, never raising."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rdma_dp.core import sysfs


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"4: ACTIVE\n", "4: ACTIVE"),
        (b"0x15b3", "0x15b3"),
        (b"\n", ""),
        (b"", ""),
        (b"a\nb\n", "a"),
        ("Größe\n".encode(), "Größe"),
        (b"\xff\xfe\n", ""),
        (b"\x00\x01\n", ""),
    ],
)
def test_text_is_the_first_line_or_nothing(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "attribute"
    file.write_bytes(content)
    assert sysfs.read_text(str(file)) == text


def test_reads_at_most_a_page(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"x" * 1_000_000)
    assert len(sysfs.read_bytes(str(tmp_path / "huge")) or b"") == 4096


def test_what_is_no_readable_file_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    assert sysfs.read_bytes(str(tmp_path)) is None
    assert sysfs.read_bytes(str(tmp_path / "loop")) is None
    assert sysfs.read_bytes(str(tmp_path / "absent")) is None
    assert sysfs.read_text(str(tmp_path / "fifo")) == ""  # and comes back at once
    assert sysfs.list_names(str(tmp_path / "fifo")) == []
    assert sysfs.link_name(str(tmp_path / "fifo")) == ""


def test_an_attribute_that_answers_eio_is_unknown() -> None:
    assert sysfs.read_bytes("/proc/self/mem") is None  # address 0: EIO


def test_names_come_in_natural_order_and_without_unprintable_ones(tmp_path: Path) -> None:
    for name in (b"mlx5_10", b"mlx5_9", b"mlx5_bond_0", b"mlx5_1", b"bad\xff", b"bad\x07"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    assert sysfs.list_names(str(tmp_path)) == ["mlx5_1", "mlx5_9", "mlx5_10", "mlx5_bond_0"]


def test_follow_leads_to_the_target_even_when_it_is_gone() -> None:
    assert sysfs.follow("/nowhere/at/all") == "/nowhere/at/all"


def test_follow_takes_a_relative_link_apart(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "mlx5_0").symlink_to("../devices/pci0000:10/mlx5_0")
    assert sysfs.follow(str(tmp_path / "class" / "mlx5_0")) == str(tmp_path / "devices/pci0000:10/mlx5_0")
