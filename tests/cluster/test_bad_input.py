# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What operators get wrong: each case ends in one message with the place and the remedy, and changes nothing."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.tools import Kube, PlaybookRun, Playbooks


def refused(run: PlaybookRun, *words: str) -> None:
    """The run failed, said all ``words``, and showed no traceback."""
    assert run.rc != 0, "the playbook took what it should refuse"
    assert "Traceback" not in run.output
    missing = [word for word in words if word not in run.output]
    assert not missing, f"the message does not say {missing}:\n{run.output[-3000:]}"
    assert run.output.count("[ERROR]") <= 1, "more than one message"


def profile(**pool: Any) -> str:
    """Extra variables with one shared profile of that pool."""
    return json.dumps({"device_plugin_profiles": {"shared": {"config": {"configList": [pool]}}}})


@pytest.fixture
def unchanged(empty: Kube) -> Any:
    """The cluster is the same before and after the test."""
    before = empty.fingerprint()
    yield
    assert empty.fingerprint() == before


@pytest.mark.usefixtures("unchanged")
class TestSiteRefuses:
    """site.yml on a cluster that has nothing of ours."""

    def test_kubeconfig_that_does_not_exist(self, playbooks: Playbooks, tmp_path: Path) -> None:
        missing = tmp_path / "no-such-kubeconfig"
        run = playbooks.run("site.yml", env={"K8S_AUTH_KUBECONFIG": str(missing)})
        refused(run, str(missing), "kubeconfig")

    def test_kubeconfig_that_is_no_yaml(self, playbooks: Playbooks, tmp_path: Path) -> None:
        broken = tmp_path / "kubeconfig"
        broken.write_text("apiVersion: v1\nclusters: [unclosed")
        run = playbooks.run("site.yml", env={"K8S_AUTH_KUBECONFIG": str(broken)})
        refused(run, str(broken))

    def test_api_server_that_is_down(self, playbooks: Playbooks, kube: Kube, tmp_path: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(kube.kubeconfig.read_text())
        Kube(kubeconfig).run("config", "set-cluster", "sandbox", f"--server=https://127.0.0.1:{port}")
        run = playbooks.run("site.yml", env={"K8S_AUTH_KUBECONFIG": str(kubeconfig)})
        refused(run, f"127.0.0.1:{port}")

    @pytest.mark.parametrize("image", ["", " "])
    def test_image_not_named(self, playbooks: Playbooks, image: str) -> None:
        refused(playbooks.run("site.yml", "-e", json.dumps({"device_plugin_image": image})), "device_plugin_image")

    def test_no_node_with_the_label(self, playbooks: Playbooks) -> None:
        run = playbooks.run("site.yml", "-e", "lingjun_rdma_node_selector=alibabacloud.com/lingjun-worker=nobody")
        refused(run, "alibabacloud.com/lingjun-worker=nobody", "lingjun_rdma_node_selector")

    def test_node_that_does_not_exist(self, playbooks: Playbooks) -> None:
        run = playbooks.run("site.yml", "-e", json.dumps({"lingjun_rdma_nodes": ["node-a", "NODE-B"]}))
        refused(run, "NODE-B", "node-b")

    def test_node_that_is_in_another_mode(self, playbooks: Playbooks, kube: Kube) -> None:
        kube.run("label", "node", "node-b", "lingjun.rdma/mode=exclusive")
        try:
            labelled = kube.fingerprint()
            refused(playbooks.run("site.yml"), "node-b (exclusive)", "switch_mode.yml")
            assert kube.fingerprint() == labelled
        finally:
            kube.run("label", "node", "node-b", "lingjun.rdma/mode-")

    def test_namespace_that_does_not_exist(self, playbooks: Playbooks) -> None:
        run = playbooks.run("site.yml", "-e", "device_plugin_namespace=nowhere")
        refused(run, "nowhere", "device_plugin_create_namespace")

    def test_config_with_three_mistakes_lists_all_three(self, playbooks: Playbooks) -> None:
        run = playbooks.run(
            "site.yml", "-e", profile(resourceName="_hca", rdmaHcaMaximum=1000, selectors={"linkTypes": ["ethernot"]})
        )
        refused(
            run,
            "configList[0].resourceName",
            "configList[0].rdmaHcaMaximum",
            "configList[0].selectors.linkTypes[0]",
        )


def test_image_that_no_node_has(playbooks: Playbooks, empty: Kube) -> None:
    """The rollout names pod, node and image; it does not wait for its whole timeout; the old state can be restored."""
    run = playbooks.run(
        "site.yml",
        "-e",
        "device_plugin_image=localhost/lingjun/no-such-image:1",
        "-e",
        "device_plugin_image_pull_policy=Never",
    )
    refused(run, "node-a", "node-b", "localhost/lingjun/no-such-image:1", "ErrImageNeverPull")
    assert run.seconds < 90
    assert set(empty.allocatable().values()) <= {None, "0"}
