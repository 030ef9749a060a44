# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives are byte for byte the same for the same contents, and what container runtimes load."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from imagebuild import archive
from imagebuild.tree import directory, file, link

TREE = {"b": file("two", 0o755), "a": directory(), "a/c": link("/b"), "a/ä": file("ü")}


def test_layer_does_not_depend_on_the_order_of_the_tree() -> None:
    assert archive.layer(TREE) == archive.layer(dict(reversed(TREE.items())))


def test_layer_holds_root_owned_sorted_entries_without_times_of_the_build() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive.layer(TREE))) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["a", "a/c", "a/ä", "b"]
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {
        (0, 0, "root", archive.MTIME)
    }
    assert [member.mode for member in members] == [0o755, 0o777, 0o644, 0o755]
    assert members[1].issym()
    assert members[1].linkname == "/b"


def test_image_is_a_docker_archive_whose_parts_agree(tmp_path: Path) -> None:
    layers = [tmp_path / "1.tar", tmp_path / "2.tar"]
    layers[0].write_bytes(archive.layer({"a": file("lower")}))
    layers[1].write_bytes(archive.layer({"a": file("upper")}))
    diff_ids = [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in layers]
    config = archive.config("arm64", "2026-01-02T03:04:05Z", diff_ids, ["one", "two"], {"User": "0:0"})
    for target in (tmp_path / "image.tar", tmp_path / "again.tar"):
        archive.write_image(target, "localhost/x/y:1", config, layers)
    assert (tmp_path / "image.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    with tarfile.open(tmp_path / "image.tar") as tar:
        contents = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    (manifest,) = json.loads(contents["manifest.json"])
    assert manifest["RepoTags"] == ["localhost/x/y:1"]
    assert manifest["Config"] == hashlib.sha256(config).hexdigest() + ".json" == f"{archive.image_id(config)}.json"
    found = json.loads(contents[manifest["Config"]])
    assert [f"sha256:{hashlib.sha256(contents[name]).hexdigest()}" for name in manifest["Layers"]] == found["rootfs"][
        "diff_ids"
    ]
    assert (found["architecture"], found["variant"], found["os"]) == ("arm64", "v8", "linux")
    assert found["created"] == "2026-01-02T03:04:05Z"


def test_a_failed_write_leaves_the_image_of_before(tmp_path: Path) -> None:
    target = tmp_path / "image.tar"
    target.write_bytes(b"before")
    try:
        archive.write_image(target, "x:1", b"{}", [tmp_path / "missing.tar"])
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("a missing layer went unnoticed")
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
