# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The termination message."""

from __future__ import annotations

from pathlib import Path

from rdma_dp import termination


def test_is_written_where_the_file_exists_and_cut_to_what_kubelet_reads(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    path.touch()
    assert termination.write("x" * 5000, path)
    assert path.stat().st_size == 4096
    assert termination.write("the reason", path)
    assert path.read_text() == "the reason"


def test_no_file_is_ever_made(tmp_path: Path) -> None:
    assert not termination.write("the reason", tmp_path / "termination-log")
    assert not list(tmp_path.iterdir())
    assert not termination.write("the reason", tmp_path)
