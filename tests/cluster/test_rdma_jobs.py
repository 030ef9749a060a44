# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two Jobs of the ACK page: both complete, and their logs show the NICs."""

from __future__ import annotations

import re

from tests.cluster.tools import Kube, Playbooks


def test_both_jobs_complete_and_their_logs_show_the_nics(installed: Kube, playbooks: Playbooks) -> None:
    run = playbooks.succeed("playbooks/rdma_test.yml")
    assert run.output.count("RDMA test: PASSED") == 2
    assert "rdma-hostnetwork-test" in run.output
    assert "rdma-non-hostnetwork-test" in run.output
    # The routable GID of each node's first NIC, as the simulated machines have them.
    assert "mlx5_bond_0 port 1 GID 3   fd00:4c4a:" in run.output
    # Every NIC of the node the Job ran on, by name: 8 on the b300 machine, 4 on the h20.
    for names in re.findall(r"PASSED \(\d+ NICs?: ([^)]*)\)", run.output):
        assert names.split(", ") in (
            [f"mlx5_bond_{number}" for number in range(8)],
            [f"mlx5_bond_{number}" for number in range(4)],
        )


def test_jobs_can_be_run_again_at_once(installed: Kube, playbooks: Playbooks) -> None:
    for _unused in range(2):
        assert playbooks.succeed("playbooks/rdma_test.yml").output.count("RDMA test: PASSED") == 2


def test_job_that_fails_is_a_failed_play_with_the_reason(installed: Kube, playbooks: Playbooks) -> None:
    """A command that ends with 3: exit code and output are shown."""
    run = playbooks.run(
        "playbooks/rdma_test.yml", "-e", '{"rdma_test_command": ["sh", "-c", "echo no RDMA today; exit 3"]}'
    )
    assert run.rc != 0
    assert "no RDMA today" in run.output
    assert "Traceback" not in run.output


def test_pod_that_asks_for_nothing_gets_no_device(installed: Kube) -> None:
    """The negative control: /dev/infiniband is the plugin's doing."""
    installed.run(
        "run",
        "without-rdma",
        "--image=localhost/lingjun/rdma-test:0.1.0",
        "--image-pull-policy=Never",
        "--restart=Never",
        '--overrides={"spec": {"tolerations": [{"operator": "Exists"}]}}',
        "--command",
        "--",
        "sh",
        "-c",
        "if [ -e /dev/infiniband ]; then echo it is there; exit 1; fi",
    )
    try:
        installed.run("wait", "pod/without-rdma", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    finally:
        installed.run("delete", "pod", "without-rdma", "--now")
