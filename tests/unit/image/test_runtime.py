# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of a Debian system, the image gets Python and what it needs; nothing that somebody could log in with."""

from __future__ import annotations

import pytest

from imagebuild.errors import BuildError
from imagebuild.packages import Package
from imagebuild.runtime import LIBRARIES, Python, compose, debian_python, refuse_unknown_libraries
from imagebuild.tree import Entry, file, link
from tests.unit.image import elf_maker

PYTHON = debian_python("3.11")
LOADER = "/lib64/ld-linux-x86-64.so.2"
TRIPLET = "usr/lib/x86_64-linux-gnu"


def package(name: str, files: dict[str, Entry]) -> Package:
    return Package(name, f"Package: {name}\nVersion: 1\n", {**files, f"usr/share/doc/{name}/copyright": file(name)})


def system(extension: bytes = b"") -> list[Package]:
    """A small Debian: a C library, Python with one extension module, OpenSSL, a shell, a database that nobody needs."""
    return [
        package(
            "libc6",
            {
                **{f"{TRIPLET}/{name}": file(elf_maker.make()) for name in LIBRARIES},
                f"{TRIPLET}/ld-linux-x86-64.so.2": file(elf_maker.make()),
                "usr/lib64/ld-linux-x86-64.so.2": link("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
            },
        ),
        package(
            "python3.11-minimal",
            {
                "usr/bin/python3.11": file(elf_maker.make(("libc.so.6", "libz.so.1"), LOADER), 0o755),
                "usr/bin/python3": link("python3.11"),
                "usr/bin/py3compile": file("#!/usr/bin/python3"),
                "usr/lib/python3.11/os.py": file("import sys\n"),
                "usr/lib/python3.11/test/test_os.py": file(""),
                "usr/lib/python3.11/unittest/test/test_case.py": file(""),
                "usr/lib/python3.11/__pycache__/os.cpython-311.pyc": file("old"),
                "usr/lib/python3.11/lib-dynload/_ssl.so": file(extension or elf_maker.make(("libssl.so.3",))),
                "usr/lib/python3.11/lib-dynload/_sqlite3.so": file(elf_maker.make(("libsqlite3.so.0",))),
            },
        ),
        package("libssl3", {f"{TRIPLET}/libssl.so.3": file(elf_maker.make(("libcrypto.so.3",)))}),
        package("libcrypto3", {f"{TRIPLET}/libcrypto.so.3": file(elf_maker.make(("libc.so.6",)))}),
        package(
            "zlib1g", {f"{TRIPLET}/libz.so.1": link("libz.so.1.2"), f"{TRIPLET}/libz.so.1.2": file(elf_maker.make())}
        ),
        package("libsqlite3-0", {f"{TRIPLET}/libsqlite3.so.0": file(elf_maker.make())}),
        package(
            "dash", {"usr/bin/sh": link("dash"), "usr/bin/dash": file(elf_maker.make(("libc.so.6",), LOADER), 0o755)}
        ),
        package("dpkg", {"usr/bin/dpkg": file(elf_maker.make(), 0o755), "usr/share/locale/de/dpkg.mo": file("")}),
    ]


def test_python_and_what_it_needs_come_in_and_nothing_else() -> None:
    tree = compose(system(), PYTHON, "amd64")
    assert {path for path in tree if path.startswith("usr/bin/")} == {"usr/bin/python3.11", "usr/bin/python3"}
    assert {path.rpartition("/")[2] for path in tree if path.startswith(f"{TRIPLET}/")} == {
        *LIBRARIES,
        *("ld-linux-x86-64.so.2", "libssl.so.3", "libcrypto.so.3", "libz.so.1", "libz.so.1.2"),
    }
    assert {path for path in tree if path.startswith("usr/lib/python3.11/")} == {
        "usr/lib/python3.11/os.py",
        "usr/lib/python3.11/lib-dynload/_ssl.so",
    }
    assert "usr/lib64/ld-linux-x86-64.so.2" in tree
    assert not [path for path in tree if "locale" in path]


def test_each_package_in_it_brings_its_licence_and_is_listed_for_scanners() -> None:
    tree = compose(system(), PYTHON, "amd64")
    listed = {path.rpartition("/")[2] for path in tree if path.startswith("var/lib/dpkg/status.d/")}
    assert listed == {"libc6", "python3.11-minimal", "libssl3", "libcrypto3", "zlib1g"}
    assert {path.split("/")[3] for path in tree if path.endswith("/copyright")} == listed
    assert tree["var/lib/dpkg/status.d/zlib1g"].data == b"Package: zlib1g\nVersion: 1\n"


def test_a_licence_that_is_a_link_to_another_packages_directory_comes_along() -> None:
    packages = [found for found in system() if found.name != "libssl3"]
    packages.append(
        Package(
            "libssl3",
            "Package: libssl3\n",
            {f"{TRIPLET}/libssl.so.3": file(elf_maker.make()), "usr/share/doc/libssl3": link("openssl-base")},
        )
    )
    packages.append(Package("openssl-base", "", {"usr/share/doc/openssl-base/copyright": file("both")}))
    tree = compose(packages, PYTHON, "amd64")
    assert tree["usr/share/doc/libssl3"].target == "openssl-base"
    assert tree["usr/share/doc/openssl-base/copyright"].data == b"both"


def test_python_outside_of_packages_with_its_own_library_as_in_the_official_images() -> None:
    python = Python("usr/local/bin/python3.11", "usr/local/lib/python3.11", "usr/local/lib/python3.11/site-packages")
    unowned = {
        "usr/local/bin/python3.11": file(elf_maker.make(("libpython3.11.so.1.0",), LOADER), 0o755),
        "usr/local/bin/python3": link("python3.11"),
        "usr/local/lib/libpython3.11.so.1.0": file(elf_maker.make(("libz.so.1",))),
        "usr/local/lib/python3.11/os.py": file(""),
        "usr/local/lib/python3.11/site-packages/pip/main.py": file(""),
        "etc/ld.so.cache": file("cache"),
    }
    packages = [Package("", "", unowned), *(found for found in system() if not found.name.startswith("python"))]
    tree = compose(packages, python, "amd64")
    assert {*unowned} - {"usr/local/lib/python3.11/site-packages/pip/main.py"} <= set(tree)
    assert "usr/local/lib/python3.11/site-packages/pip/main.py" not in tree
    assert f"{TRIPLET}/libz.so.1.2" in tree
    assert "var/lib/dpkg/status.d/" not in tree


@pytest.mark.parametrize(
    ("packages", "arch", "words"),
    [
        (
            system(elf_maker.make(("libodd.so.7",))),
            "amd64",
            "/usr/lib/python3.11/lib-dynload/_ssl.so needs the library libodd.so.7",
        ),
        (system(), "arm64", "is for amd64, not for arm64"),
        (system(elf_maker.make(machine=elf_maker.RISCV)), "amd64", "is for an unknown machine, not for amd64"),
        ([found for found in system() if not found.name.startswith("python")], "amd64", "hold no /usr/bin/python3.11"),
    ],
)
def test_what_would_not_run_is_refused_by_name(packages: list[Package], arch: str, words: str) -> None:
    with pytest.raises(BuildError) as refused:
        compose(packages, PYTHON, arch)
    assert words in str(refused.value)


def test_a_wheel_that_needs_an_unknown_library_is_refused() -> None:
    good = {
        "a.so": file(elf_maker.make(("libstdc++.so.6", "ld-linux-x86-64.so.2", "own.so"))),
        "lib/own.so": file(elf_maker.make()),
    }
    refuse_unknown_libraries(good)
    with pytest.raises(BuildError, match=r"b\.so needs libibverbs\.so\.1"):
        refuse_unknown_libraries({**good, "b.so": file(elf_maker.make(("libibverbs.so.1",)))})
