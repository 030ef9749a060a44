# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where inputs come from: apt sources, pip's platforms, git."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from imagebuild import bytecode, debian, source, wheels
from imagebuild.errors import BuildError
from imagebuild.packages import Package, field
from imagebuild.tree import file

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "suite"),
    [
        ("Types: deb\nURIs: mirror\nSuites: bookworm bookworm-updates\n", "bookworm"),
        ("# Suites: old\nTypes: deb\nsuites: trixie/updates\n", "trixie/updates"),
        ("deb mirror bookworm main\n", "bookworm"),
        ("deb [arch=amd64 signed-by=/k] mirror  bookworm-backports main\n", "bookworm-backports"),
        ("# deb mirror bookworm main\n\n", ""),
        ("deb-src mirror bookworm main\n", ""),
        ("", ""),
    ],
)
def test_suite_of_apt_sources(text: str, suite: str) -> None:
    assert debian.first_suite(text) == suite


def test_apt_sources_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"No apt sources in .*/nothing\. Name the file"):
        debian.find_sources(tmp_path / "nothing")


def test_wheels_are_taken_for_the_images_c_library_and_older_ones() -> None:
    packages = [Package("libc6", "Package: libc6\nVersion: 2.19-9+deb12u14\n", {})]
    options = wheels.platform_options("arm64", wheels.glibc_minor(packages))
    assert options == [
        "--platform=manylinux_2_19_aarch64",
        "--platform=manylinux_2_18_aarch64",
        "--platform=manylinux_2_17_aarch64",
        "--platform=manylinux2014_aarch64",
    ]
    with pytest.raises(BuildError, match="no wheels for the architecture riscv64"):
        wheels.platform_options("riscv64", 36)
    with pytest.raises(BuildError, match="libc6"):
        wheels.glibc_minor([])


def test_a_control_fields_value() -> None:
    paragraph = "Package: a\nVersion: 1:2-3\nDescription: Version: 9\n Version: 8\n"
    assert field(paragraph, "Version") == "1:2-3"
    assert field(paragraph, "Source") == ""


def test_bytecode_is_the_same_each_time_and_valid_without_times() -> None:
    tree = {
        "usr/lib/a.py": file("NAMES = {'x', 'y', 'z'} if 'x' in {'a', 'b', 'c', 'd'} else None\n"),
        "b.txt": file(""),
    }
    python = bytecode.find_python(RUNNING)
    first = bytecode.compile_tree(tree, python)
    assert bytecode.compile_tree(tree, python) == first
    (added,) = set(first) - set(tree)
    assert re.fullmatch(r"usr/lib/__pycache__/a\.cpython-3\d+\.pyc", added)
    # PEP 552: bit 0 says "hash based", bit 1 would ask to check the source.
    assert int.from_bytes(first[added].data[4:8], "little") == 0b01
    assert b"/usr/lib/a.py" in first[added].data


def test_a_file_that_does_not_compile_stops_the_build() -> None:
    with pytest.raises(BuildError, match="compile the Python files"):
        bytecode.compile_tree({"a.py": file("def\n")}, bytecode.find_python(RUNNING))


def test_a_python_that_the_machine_does_not_have_is_named() -> None:
    with pytest.raises(BuildError, match=r"Python 3\.99.*Install python3\.99"):
        bytecode.find_python("3.99")


def git(project: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(project), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "image").mkdir()
    (tmp_path / "image/a.py").write_text("1")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one", "--date", "2026-01-02T03:04:05Z")
    return tmp_path


def test_revision_is_the_last_commit_that_touched_the_images_inputs(project: Path) -> None:
    before = source.describe(project, {})
    assert re.fullmatch(r"[0-9a-f]{40}", before.revision)
    (project / "README.md").write_text("docs")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "docs")
    assert source.describe(project, {}) == before


def test_changed_files_make_the_revision_dirty(project: Path) -> None:
    (project / "image/a.py").write_text("2")
    assert source.describe(project, {}).revision.endswith("-dirty")


def test_source_date_epoch_is_the_time_of_the_image(project: Path) -> None:
    assert source.describe(project, {"SOURCE_DATE_EPOCH": "86400"}).created == "1970-01-02T00:00:00Z"
    with pytest.raises(BuildError, match="SOURCE_DATE_EPOCH is 'now'"):
        source.describe(project, {"SOURCE_DATE_EPOCH": "now"})


def test_an_installed_collection_inside_somebodys_repository_has_no_revision(project: Path) -> None:
    (project / "collections/image").mkdir(parents=True)
    assert source.describe(project / "collections", {}) == source.Source("", "1980-01-01T00:00:00Z")


def test_both_ways_to_an_image_install_the_same_pinned_wheels_and_label_it_alike() -> None:
    containerfile = (CHECKOUT / "image/Containerfile").read_text()
    assert "imagebuild.within" in containerfile
    assert "image/requirements.txt" in containerfile
    assert "pip install" not in containerfile
    pins = {
        name: dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (CHECKOUT / name).read_text(), re.MULTILINE))
        for name in ("image/requirements.txt", "image/requirements-build.txt", "requirements/dev.txt")
    }
    assert pins["image/requirements-build.txt"].items() <= pins["requirements/dev.txt"].items()
    assert pins["image/requirements-build.txt"]["protobuf"] == pins["image/requirements.txt"]["protobuf"]
