# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base image, the record of what runs, and the packet filter's rules."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from tests.sandbox import record as records
from tests.sandbox.config import BASE_IMAGE, Ports
from tests.sandbox.errors import SandboxError
from tests.sandbox.firewall import deletions, filters, rules_for
from tests.sandbox.image import needs_loader, write_base_image
from tests.sandbox.network import AddressPlan
from tests.sandbox.record import Record
from tests.sandbox.spec import Spec, node_specs


def elf(*program_header_types: int) -> bytes:
    """The head of a 64-bit ELF file: e_phoff at 32, e_phentsize and e_phnum at 54 (elf(5))."""
    head = bytearray(64)
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, len(program_header_types))
    return bytes(head) + b"".join(struct.pack("<I", kind) + bytes(52) for kind in program_header_types)


def test_a_program_with_an_interpreter_needs_libraries() -> None:
    assert needs_loader(elf(6, 3, 1))
    assert not needs_loader(elf(1, 1, 2))


@pytest.fixture
def busybox(tmp_path: Path) -> Path:
    path = tmp_path / "busybox"
    path.write_bytes(elf(1))
    return path


def test_the_image_is_a_docker_archive_whose_digests_hold(tmp_path: Path, busybox: Path) -> None:
    write_base_image(tmp_path / "image.tar", BASE_IMAGE, busybox)
    with tarfile.open(tmp_path / "image.tar") as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json") or io.BytesIO())
        assert manifest["RepoTags"] == [BASE_IMAGE]
        config = json.load(archive.extractfile(manifest["Config"]) or io.BytesIO())
        layer = (archive.extractfile(manifest["Layers"][0]) or io.BytesIO()).read()
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert files.getmember("bin/busybox").mode == 0o755
        assert files.getmember("bin/sleep").linkname == "busybox"
        assert config["config"]["Cmd"][0] == "/bin/sleep"


def test_the_image_is_the_same_bytes_each_time(tmp_path: Path, busybox: Path) -> None:
    for name in ("one", "two"):
        write_base_image(tmp_path / name, BASE_IMAGE, busybox)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_unsuitable_busybox_is_refused_with_the_package_to_install(tmp_path: Path, busybox: Path) -> None:
    busybox.write_bytes(elf(3))
    with pytest.raises(SandboxError, match="Install busybox-static instead"):
        write_base_image(tmp_path / "image.tar", BASE_IMAGE, busybox)
    with pytest.raises(SandboxError, match=r"is missing\. Install the package busybox-static"):
        write_base_image(tmp_path / "image.tar", BASE_IMAGE, tmp_path / "none")


RECORD = Record(
    Spec(node_specs({"node-a": "b300", "node-b": "h20"}), plain=True, port=7443),
    AddressPlan(IPv4Network("10.89.0.0/16")),
    Ports(7443, 10257, 10260),
    8,
    Path("/cache/kubelet"),
    "kubernetes v1.36.3",
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    records.write(tmp_path / "state.json", RECORD)
    assert records.read(tmp_path / "state.json") == RECORD


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"spec": {"nodes": []}}', '{"spec": {"nodes": [{"x": 1}]}}'])
def test_a_record_that_is_not_whole_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert records.read(tmp_path / "state.json") is None
    assert records.read(tmp_path / "none" / "state.json") is None


@pytest.mark.parametrize(
    ("rules", "filtering"),
    [
        ("", False),
        ("-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n", False),
        ("-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-A OUTPUT -j DROP\n", False),
        ("-P INPUT ACCEPT\n-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n", True),
        ("-P INPUT DROP\n-P FORWARD ACCEPT\n", True),
        ("-P INPUT ACCEPT\n-A INPUT -j ufw-before-input\n", True),
    ],
)
def test_a_machine_that_filters_is_seen(rules: str, filtering: bool) -> None:
    assert filters(rules) is filtering


def test_exactly_our_rules_are_taken_away_again() -> None:
    bridge = "lrs-123456"
    ours = "".join(f"-A {' '.join(rule)}\n" for rule in rules_for(bridge))
    others = (
        "-P FORWARD DROP\n-A INPUT -i lrs-999999 -m comment --comment lrs-999999 -j ACCEPT\n"
        '-A INPUT -m comment --comment "a b" -j ACCEPT\n-A FORWARD -i docker0 -j ACCEPT\n'
    )
    assert deletions(others + ours, bridge) == [["-D", *rule] for rule in rules_for(bridge)]
