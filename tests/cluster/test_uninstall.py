# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uninstall.yml takes away what site.yml made, and nothing under a pod that uses it."""

from __future__ import annotations

import json

from tests.cluster.tools import NAMESPACE, RESOURCE, Kube, Playbooks, eventually

HOLDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "holder"},
    "spec": {
        "tolerations": [{"operator": "Exists"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "localhost/lingjun/rdma-test:0.1.0",
                "imagePullPolicy": "Never",
                "command": ["sleep", "600"],
                "resources": {"limits": {RESOURCE: 1}},
            }
        ],
    },
}


def test_refuses_while_a_pod_holds_a_device(installed: Kube, playbooks: Playbooks) -> None:
    installed.run("apply", "-f", "-", stdin=json.dumps(HOLDER))
    try:
        installed.run("wait", "pod/holder", "--for=condition=Ready", "--timeout=60s")
        before = installed.fingerprint()
        run = playbooks.run("playbooks/uninstall.yml")
        assert run.rc != 0
        assert "default/holder" in run.output
        assert "Traceback" not in run.output
        assert installed.fingerprint() == before
    finally:
        installed.run("delete", "pod", "holder", "--now")


def test_removes_everything_and_a_second_run_changes_nothing(installed: Kube, playbooks: Playbooks) -> None:
    labels_before = {item["metadata"]["name"]: set(item["metadata"]["labels"]) for item in installed.items("nodes")}
    playbooks.succeed("playbooks/uninstall.yml", "-e", "uninstall_node_labels=true")
    eventually(installed.plugin_pods, lambda pods: not pods, seconds=30, what="the plugin's pods are gone")
    for kind in ("daemonset", "configmap", "serviceaccount"):
        ours = [
            item["metadata"]["name"]
            for item in installed.items(kind, "-n", NAMESPACE)
            if "rdma" in item["metadata"]["name"]
        ]
        assert not ours, f"{kind} left: {ours}"
    eventually(
        installed.allocatable, lambda seen: set(seen.values()) <= {None, "0"}, seconds=30, what="nothing is offered"
    )
    for node in installed.items("nodes"):
        assert set(node["metadata"]["labels"]) == labels_before[node["metadata"]["name"]] - {"lingjun.rdma/mode"}
    assert playbooks.succeed("playbooks/uninstall.yml", "-e", "uninstall_node_labels=true").recap["changed"] == 0
