# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job: site.yml gives every node its resource, and a second run has nothing to do."""

from __future__ import annotations

import json
import time

from tests.cluster.tools import NAMESPACE, Kube, Playbooks, eventually
from tests.sandbox import Sandbox


def test_check_mode_on_an_empty_cluster_says_what_it_would_do_and_touches_nothing(
    empty: Kube, playbooks: Playbooks
) -> None:
    before = empty.fingerprint()
    run = playbooks.succeed("site.yml", "--check", "--diff")
    assert run.recap["changed"] >= 2, "labels and manifests would change"
    assert "rdma-dp-shared" in run.output
    assert empty.fingerprint() == before


def test_every_node_offers_1k(empty: Kube, playbooks: Playbooks) -> None:
    run = playbooks.succeed("site.yml")
    assert run.recap["changed"] >= 2
    # What the ACK page shows, word for word, when site.yml has ended.
    assert empty.allocatable() == {"node-a": "1k", "node-b": "1k"}
    assert "rdma/hca" in run.output
    assert "1k" in run.output or "1000" in run.output


def test_second_run_changes_nothing(installed: Kube, playbooks: Playbooks) -> None:
    before = installed.fingerprint()
    run = playbooks.succeed("site.yml")
    assert run.recap["changed"] == 0
    assert run.recap["failed"] == 0
    assert installed.fingerprint() == before
    assert playbooks.succeed("site.yml", "--check").recap["changed"] == 0


def test_somebodys_rollout_restart_is_left_alone(installed: Kube, playbooks: Playbooks) -> None:
    installed.run("-n", NAMESPACE, "rollout", "restart", "daemonset/rdma-dp-shared")
    run = playbooks.succeed("site.yml")
    assert run.recap["changed"] == 0
    daemonset = installed.get("daemonset", "rdma-dp-shared", "-n", NAMESPACE)
    assert "kubectl.kubernetes.io/restartedAt" in daemonset["spec"]["template"]["metadata"]["annotations"]


def test_plugin_pods_are_unprivileged(installed: Kube) -> None:
    for pod in installed.plugin_pods():
        spec = pod["spec"]
        assert not spec.get("hostNetwork")
        assert not spec.get("hostPID")
        assert spec["automountServiceAccountToken"] is False
        assert spec["priorityClassName"] == "system-node-critical"
        assert not any("serviceAccountToken" in json.dumps(volume) for volume in spec["volumes"])
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert not security.get("privileged")
            assert {"requests", "limits"} <= set(container["resources"])
            assert {"livenessProbe", "readinessProbe"} <= set(container)


def test_config_change_reaches_the_node(installed: Kube, playbooks: Playbooks) -> None:
    config = {"configList": [{"resourceName": "hca", "rdmaHcaMax": 500, "selectors": {"rdmaDevices": ["*"]}}]}
    playbooks.succeed("site.yml", "-e", json.dumps({"device_plugin_profiles": {"shared": {"config": config}}}))
    assert set(installed.allocatable().values()) == {"500"}
    playbooks.succeed("site.yml")
    assert set(installed.allocatable().values()) == {"1k"}


def test_upgrade_to_a_plugin_that_finds_no_nic_is_no_success(installed: Kube, playbooks: Playbooks) -> None:
    """For some seconds the nodes' status still has the number of the plugin before: it must not count."""
    run = playbooks.run("site.yml", "-e", "device_plugin_sysfs_dir=/sys", "-e", "verify_timeout=30")
    assert run.rc != 0, "the machine's own sysfs has no RDMA NIC"
    assert "node-a offers 0 of" in run.output
    assert "node-b offers 0 of" in run.output
    assert "Traceback" not in run.output
    # And a good one mends it.
    playbooks.succeed("site.yml")
    assert installed.allocatable() == {"node-a": "1k", "node-b": "1k"}


def test_kubelet_restart_brings_the_resource_back_without_a_plugin_restart(installed: Kube, cluster: Sandbox) -> None:
    """KUBELET.md, tried: allocatable returns with kubelet's next status report, up to 10 s."""

    def plugin_on(node: str) -> tuple[str, int]:
        pod = next(pod for pod in installed.plugin_pods() if pod["spec"]["nodeName"] == node)
        return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]

    before = plugin_on("node-a")
    started = time.monotonic()
    cluster.node("node-a").restart_kubelet()
    # At first the status is the old one: wait until kubelet has reported anew, then for the number.
    eventually(
        lambda: installed.get("node", "node-a")["status"],
        lambda status: status["allocatable"].get("rdma/hca") == "1k" and is_ready(status),
        seconds=40,
        what="node-a is Ready with rdma/hca: 1k again",
    )
    print(f"1k again {time.monotonic() - started:.1f} s after the restart began")
    # Kubelet forgets all resources at its start; only a new registration can have brought it back. It must stay.
    time.sleep(12)
    assert installed.allocatable()["node-a"] == "1k"
    assert plugin_on("node-a") == before


def is_ready(status: dict[str, object]) -> bool:
    """The Ready condition of a Node's status."""
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def test_nic_that_vanishes_and_comes_back(installed: Kube, cluster: Sandbox) -> None:
    """Shared mode: 1,000 devices stay as long as one NIC is left, none when the last is gone, all when one is back."""
    nics = cluster.node("node-b").nics
    names = ["mlx5_bond_0", "mlx5_bond_1", "mlx5_bond_2", "mlx5_bond_3"]

    def allocatable() -> str | None:
        return installed.allocatable()["node-b"]

    try:
        for name in names[:3]:
            nics.remove_nic(name)
        time.sleep(5)
        assert allocatable() == "1k"
        nics.remove_nic(names[3])
        eventually(allocatable, lambda seen: seen == "0", seconds=100, what="no NIC, no allocatable")
    finally:
        for name in names:
            nics.restore_nic(name)
    eventually(allocatable, lambda seen: seen == "1k", seconds=100, what="NICs are back")
