# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree is the same whatever the checkout's umask, order and times are."""

from __future__ import annotations

from pathlib import Path

import pytest

from imagebuild.tree import directory, file, follow, link, merged_usr, read_directory, with_parents


def test_modes_do_not_follow_the_umask(tmp_path: Path) -> None:
    for name, mode in (("plain", 0o600), ("program", 0o700)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    tree = read_directory(tmp_path)
    assert (tree["plain"].mode, tree["program"].mode) == (0o644, 0o755)


def test_links_stay_links_and_unwanted_files_stay_out(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_text("1")
    (tmp_path / "sub/a.pyi").write_text("2")
    (tmp_path / "b").symlink_to("sub/a.py")
    tree = read_directory(tmp_path, lambda path: not path.endswith(".pyi"))
    assert set(tree) == {"sub/a.py", "b"}
    assert tree["b"].target == "sub/a.py"


def test_parents_are_added_but_not_replaced() -> None:
    tree = with_parents({"tmp": directory(0o1777), "tmp/a/b": file("x")})
    assert set(tree) == {"tmp", "tmp/a", "tmp/a/b"}
    assert tree["tmp"].mode == 0o1777


@pytest.mark.parametrize(
    ("path", "merged"),
    [
        ("lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("bin/busybox", "usr/bin/busybox"),
        ("bin", "bin"),
        ("usr/lib/a", "usr/lib/a"),
        ("library/a", "library/a"),
    ],
)
def test_paths_of_a_merged_usr(path: str, merged: str) -> None:
    assert merged_usr(path) == merged


def test_links_are_followed_through_the_merge_and_never_for_ever() -> None:
    tree = {
        "usr/lib64/ld.so": link("/lib/x/ld-2.so"),
        "usr/lib/x/ld-2.so": link("ld-2.36.so"),
        "usr/lib/x/ld-2.36.so": file(b""),
        "loop": link("loop"),
    }
    assert list(follow(tree, "usr/lib64/ld.so")) == ["usr/lib64/ld.so", "usr/lib/x/ld-2.so", "usr/lib/x/ld-2.36.so"]
    assert list(follow(tree, "missing")) == []
    assert set(follow(tree, "loop")) == {"loop"}
