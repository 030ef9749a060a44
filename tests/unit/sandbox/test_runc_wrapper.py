# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wrapper takes exactly one capability away, only where the machine lacks it, and says so."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.bootstrap import RUNC_WRAPPER

KINDS = ("bounding", "effective", "permitted")
LACKS, HAS = "000001fffeffffff", "000001ffffffffff"


@dataclass(frozen=True)
class Machine:
    """A place to run the wrapper in, with a runc that prints its arguments."""

    root: Path

    def run(self, effective: str, *arguments: str) -> str:
        (self.root / "status").write_text(f"Name:\tsh\nCapEff:\t{effective}\n")
        environment = {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "SANDBOX_STATUS": str(self.root / "status"),
            "SANDBOX_LOG": str(self.root / "log"),
        }
        done = subprocess.run([RUNC_WRAPPER, *arguments], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def log(self) -> str:
        return (self.root / "log").read_text() if (self.root / "log").exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "runc").write_text('#!/bin/sh\necho "$*"\n')
    (tmp_path / "bin" / "runc").chmod(0o755)
    (tmp_path / "bundle").mkdir()
    return Machine(tmp_path)


def process(*capabilities: str) -> dict[str, Any]:
    """Compact JSON is what containerd writes, so the tests write it too."""
    # The arguments hold what must not be taken for the capability object.
    arguments = ["sh", "CAP_SYS_RESOURCE", '"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}', "a,]"]
    return {"args": arguments, "capabilities": {kind: list(capabilities) for kind in KINDS}, "cwd": "/"}


def write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content, separators=(",", ":")))
    return path


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (["CAP_SYS_RESOURCE"], []),
        (["CAP_SYS_RESOURCE", "CAP_IPC_LOCK"], ["CAP_IPC_LOCK"]),
        (["CAP_IPC_LOCK", "CAP_SYS_RESOURCE"], ["CAP_IPC_LOCK"]),
        (["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_IPC_LOCK"], ["CAP_CHOWN", "CAP_IPC_LOCK"]),
        (["CAP_CHOWN"], ["CAP_CHOWN"]),
        ([], []),
    ],
)
@pytest.mark.parametrize("style", ["--bundle", "-b", "--bundle="])
def test_the_one_capability_is_taken_out_of_a_bundle(
    machine: Machine, asked: list[str], left: list[str], style: str
) -> None:
    bundle = machine.root / "bundle"
    config = write(bundle / "config.json", {"ociVersion": "1.0.2", "process": process(*asked)})
    where = [f"--bundle={bundle}"] if style.endswith("=") else [style, str(bundle)]
    said = machine.run(LACKS, "--root", "/x", "create", *where, "id")
    assert json.loads(config.read_text()) == {"ociVersion": "1.0.2", "process": process(*left)}
    assert said.split() == ["--root", "/x", "create", *where, "id"]
    assert ("without CAP_SYS_RESOURCE" in machine.log) is (asked != left)


def test_a_command_in_a_container_is_treated_alike(machine: Machine) -> None:
    path = write(machine.root / "process.json", process("CAP_SYS_RESOURCE", "CAP_IPC_LOCK"))
    machine.run(LACKS, "exec", "--process", str(path), "id")
    assert json.loads(path.read_text()) == process("CAP_IPC_LOCK")


def test_a_machine_that_has_it_gives_it(machine: Machine) -> None:
    config = write(machine.root / "bundle" / "config.json", {"process": process("CAP_SYS_RESOURCE")})
    before = config.read_bytes()
    machine.run(HAS, "create", "--bundle", str(machine.root / "bundle"), "id")
    assert config.read_bytes() == before
    assert machine.log == ""


def test_other_commands_just_pass(machine: Machine) -> None:
    assert machine.run(LACKS, "--root", "/x y", "kill", "id", "9") == "--root /x y kill id 9\n"
