# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Molecule's scenarios: converge, idempotence and verify against the sandbox."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.cluster.tools import BIN, CHECKOUT, Kube

SCENARIOS = sorted(path.parent.name for path in (CHECKOUT / "molecule").glob("*/molecule.yml"))


def test_there_are_scenarios() -> None:
    assert "default" in SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, empty: Kube) -> None:
    environment = os.environ | {
        "K8S_AUTH_KUBECONFIG": str(empty.kubeconfig),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PY_COLORS": "0",
        "ANSIBLE_NOCOLOR": "1",
    }
    # An interrupted run leaves its state behind.
    subprocess.run([BIN / "molecule", "reset", "-s", scenario], cwd=CHECKOUT, env=environment, check=False)
    done = subprocess.run(
        [BIN / "molecule", "test", "-s", scenario],
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]
