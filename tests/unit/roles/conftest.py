# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's variables and templates, evaluated without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Roles:
    """The worker process and how to ask it."""

    process: subprocess.Popen[str]

    def value(
        self, role: str, expression: str, given: Mapping[str, Any] | None = None, facts: Mapping[str, Any] | None = None
    ) -> Any:
        """The value of ``expression`` in the role; ``given`` is what a user set, ``facts`` what earlier tasks left."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"role": role, "expression": expression, "given": given or {}, "facts": facts or {}}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise AssertionError(f"{role}: {expression}: {answer['error']}")
        return answer["value"]


@pytest.fixture(scope="session")
def roles() -> Iterator[Roles]:
    """One worker for all tests."""
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT / "build"), "ANSIBLE_DEPRECATION_WARNINGS": "false"}
    command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    yield Roles(process)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
