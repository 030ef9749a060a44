# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a file, in all the ways in which configs are changed."""

from __future__ import annotations

import os
from pathlib import Path

from rdma_dp.watched_file import WatchedFile


def test_rewritten_replaced_removed_and_back(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("one")
    file = WatchedFile(path)
    assert file.changed()  # the first look
    assert not file.changed()
    path.write_text("three")
    assert file.changed()
    (tmp_path / "new").write_text("three")
    (tmp_path / "new").replace(path)
    assert file.changed()
    path.unlink()
    assert file.changed()
    assert not file.changed()
    path.write_text("three")
    assert file.changed()


def test_same_size_and_inode_but_written_later(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("one")
    os.utime(path, ns=(1, 1))
    file = WatchedFile(path)
    file.changed()
    path.write_text("two")
    assert file.changed()


def test_swapped_link_above_the_file(tmp_path: Path) -> None:
    """kubelet's ConfigMap volumes: config.json -> ..data/config.json, and ..data is swapped."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("same")
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "config.json").symlink_to("..data/config.json")
    file = WatchedFile(tmp_path / "config.json")
    file.changed()
    assert not file.changed()
    (tmp_path / "..new").symlink_to("second")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert file.changed()
