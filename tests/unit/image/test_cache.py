# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers are made once per key, and never taken when damaged."""

from __future__ import annotations

import os
import time
from pathlib import Path

from imagebuild.cache import Cache, digest
from imagebuild.tree import Tree, file


class Maker:
    """Counts how often a tree is asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Tree:
        self.calls += 1
        return {"dir/a": file("contents")}


def test_second_time_the_stored_layer_is_taken(tmp_path: Path) -> None:
    make, cache = Maker(), Cache(tmp_path)
    first = cache.layer("key", "about", make)
    assert cache.layer("key", "about", make) == first
    assert make.calls == 1
    assert first.unpacked == len("contents")


def test_another_key_or_the_wish_for_a_new_one_makes_it_anew(tmp_path: Path) -> None:
    make, cache = Maker(), Cache(tmp_path)
    first = cache.layer("key", "about", make)
    assert cache.layer("other", "about", make).diff_id == first.diff_id
    assert cache.layer("key", "about", make, anew=True) == first
    assert make.calls == 3


def test_a_damaged_layer_is_made_anew(tmp_path: Path) -> None:
    make, cache = Maker(), Cache(tmp_path)
    first = cache.layer("key", "about", make)
    first.path.write_bytes(first.path.read_bytes()[:-1])
    assert cache.layer("key", "about", make) == first
    first.path.with_suffix(".json").write_text("[")
    assert cache.layer("key", "about", make) == first
    assert make.calls == 3


def test_layers_that_nobody_used_for_a_month_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, fresh = (cache.layer(key, "about", Maker()) for key in ("old", "fresh"))
    past = time.time() - 31 * 86400
    for path in (old.path, old.path.with_suffix(".json")):
        os.utime(path, (past, past))
    cache.drop_unused()
    assert sorted(path.name for path in (tmp_path / "layers").iterdir()) == ["fresh.json", "fresh.tar"]
    assert fresh.path.exists()


def test_a_key_depends_on_names_and_values_but_not_on_their_order() -> None:
    assert digest(a=1, b=2) == digest(b=2, a=1)
    assert digest(a=1, b=2) != digest(a=2, b=1)
