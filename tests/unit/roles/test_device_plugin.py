# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of role device_plugin, as data, and what the role refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from rdma_dp import config_file
from rdma_dp.core import config
from tests.unit.roles.conftest import Roles

IMAGE = "registry.example/rdma-dp:0.1.0"
Objects = dict[str, dict[str, Any]]
Render = Callable[..., Objects]
POOL = {"resourceName": "hca", "selectors": {"rdmaDevices": ["*"]}}


@pytest.fixture
def render(roles: Roles) -> Render:
    """Kind/name to object, for the given variables."""

    def make(**given: Any) -> Objects:
        objects = roles.value("device_plugin", "device_plugin_manifests", {"device_plugin_image": IMAGE, **given})
        return {f"{item['kind']}/{item['metadata']['name']}": item for item in objects}

    return make


def daemonset(objects: Objects, profile: str = "shared") -> dict[str, Any]:
    return objects[f"DaemonSet/rdma-dp-{profile}"]


def pod(objects: Objects, profile: str = "shared") -> dict[str, Any]:
    spec = daemonset(objects, profile)["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container(objects: Objects) -> dict[str, Any]:
    (only,) = pod(objects)["containers"]
    assert isinstance(only, dict)
    return only


class TestDefaults:
    def test_one_of_each_in_the_order_in_which_they_must_come_to_be(self, render: Render) -> None:
        assert list(render()) == ["ServiceAccount/rdma-dp", "ConfigMap/rdma-dp-shared", "DaemonSet/rdma-dp-shared"]
        assert {item["metadata"]["namespace"] for item in render().values()} == {"kube-system"}

    def test_config_offers_1000_devices_of_every_usable_nic(self, render: Render) -> None:
        text = render()["ConfigMap/rdma-dp-shared"]["data"]["config.yaml"]
        (pool,) = config.parse(yaml.safe_load(text)).pools
        assert (pool.resource, pool.mode, pool.rdma_hca_max) == ("rdma/hca", "shared", 1000)
        assert pool.selectors.rdma_devices == ("*",)

    def test_pod_is_unprivileged(self, render: Render) -> None:
        spec, security = pod(render()), container(render())["securityContext"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"] == {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert security == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert render()["ServiceAccount/rdma-dp"]["automountServiceAccountToken"] is False

    def test_only_kubelets_directory_is_writable(self, render: Render) -> None:
        spec = pod(render())
        writable = [mount["name"] for mount in container(render())["volumeMounts"] if not mount.get("readOnly")]
        assert writable == ["kubelet"]
        paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
        assert paths == {"kubelet": "/var/lib/kubelet/device-plugins", "sys": "/sys", "dev": "/dev"}

    def test_config_reaches_a_running_pod(self, render: Render) -> None:
        """Kubelet updates ConfigMap volumes, unless mounted by subPath; and nothing in the template rolls the pods."""
        (mount,) = (mount for mount in container(render())["volumeMounts"] if mount["name"] == "config")
        assert mount == {"name": "config", "mountPath": "/etc/rdma-dp", "readOnly": True}
        other = render(device_plugin_profiles={"shared": {"config": {"configList": [{**POOL, "rdmaHcaMax": 5}]}}})
        assert daemonset(other)["spec"] == daemonset(render())["spec"]
        hashes = {daemonset(item)["metadata"]["annotations"]["lingjun.rdma/config-hash"] for item in (other, render())}
        assert len(hashes) == 2

    def test_config_hash_is_the_plugins_own(self, render: Render) -> None:
        """The plugin shows it in rdma_dp_config_info, so that the two can be compared."""
        objects = render()
        parsed = config.parse(yaml.safe_load(objects["ConfigMap/rdma-dp-shared"]["data"]["config.yaml"]))
        annotations = objects["ConfigMap/rdma-dp-shared"]["metadata"]["annotations"]
        assert annotations["lingjun.rdma/config-hash"] == config.digest(parsed)

    def test_flags(self, render: Render) -> None:
        assert container(render())["args"] == [
            "serve",
            "--config=/etc/rdma-dp/config.yaml",
            "--kubelet-dir=/var/lib/kubelet/device-plugins",
            "--sysfs=/host/sys",
            "--dev=/host/dev",
            "--host-dev=/dev",
            "--listen=0.0.0.0:9400",
            "--log-format=json",
            "--log-level=info",
        ]

    def test_selects_lingjun_nodes_of_its_mode(self, render: Render) -> None:
        assert pod(render())["nodeSelector"] == {
            "alibabacloud.com/lingjun-worker": "true",
            "lingjun.rdma/mode": "shared",
        }

    @pytest.mark.parametrize(
        ("taint", "tolerated"),
        [
            ({"key": "node-role.alibabacloud.com/lingjun", "effect": "NoSchedule"}, True),
            ({"key": "node-role.alibabacloud.com/lingjun", "effect": "NoExecute"}, True),
            ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoExecute"}, True),
            ({"key": "team", "value": "research", "effect": "NoSchedule"}, True),
            ({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}, False),
        ],
    )
    def test_taints(self, render: Render, taint: dict[str, str], tolerated: bool) -> None:
        def matches(toleration: dict[str, str]) -> bool:
            return (
                toleration["operator"] == "Exists"
                and toleration.get("key", taint["key"]) == taint["key"]
                and toleration.get("effect", taint["effect"]) == taint["effect"]
            )

        assert any(map(matches, pod(render())["tolerations"])) == tolerated

    def test_memory_limit_has_room(self, render: Render) -> None:
        resources = container(render())["resources"]
        assert {"requests", "limits"} <= set(resources)
        assert int(resources["limits"]["memory"].removesuffix("Mi")) >= 128

    def test_probes_and_priority(self, render: Render) -> None:
        main = container(render())
        paths = {name: main[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        assert pod(render())["priorityClassName"] == "system-node-critical"
        assert daemonset(render())["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0


class TestSettings:
    def test_selector_never_changes(self, render: Render) -> None:
        """A DaemonSet's selector is immutable: no version, image or user's label may be in it."""
        changed = render(
            device_plugin_image="other:2",
            device_plugin_labels={"team": "x", "app.kubernetes.io/name": "mine"},
            device_plugin_pod_labels={"lingjun.rdma/profile": "mine", "a": "b"},
        )
        selector = {"matchLabels": {"app.kubernetes.io/name": "rdma-dp", "lingjun.rdma/profile": "shared"}}
        assert daemonset(changed)["spec"]["selector"] == daemonset(render())["spec"]["selector"] == selector
        labels = daemonset(changed)["spec"]["template"]["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()
        assert labels["a"] == "b"
        assert daemonset(changed)["metadata"]["labels"]["team"] == "x"

    def test_several_profiles(self, render: Render) -> None:
        objects = render(
            device_plugin_profiles={
                "shared": {"config": {"configList": [POOL]}},
                "exclusive": {"config": {"configList": [{**POOL, "mode": "exclusive"}]}},
            }
        )
        assert [name for name in objects if name.startswith("DaemonSet")] == [
            "DaemonSet/rdma-dp-exclusive",
            "DaemonSet/rdma-dp-shared",
        ]
        for profile in ("shared", "exclusive"):
            assert pod(objects, profile)["nodeSelector"]["lingjun.rdma/mode"] == profile
            (volume,) = (item for item in pod(objects, profile)["volumes"] if item["name"] == "config")
            assert volume["configMap"]["name"] == f"rdma-dp-{profile}"
            assert daemonset(objects, profile)["spec"]["selector"]["matchLabels"]["lingjun.rdma/profile"] == profile

    @pytest.mark.parametrize(
        "nasty", ["it's", 'say "hi"', "a: b # c", "- x", "{{ braces }}", "line\nbreak", "{a", "ü€", "%y", "yes", "1017"]
    )
    def test_no_text_breaks_the_documents(self, render: Render, nasty: str) -> None:
        objects = render(
            device_plugin_annotations={"note": nasty},
            device_plugin_pod_annotations={"note": nasty},
            device_plugin_log_level=nasty,
            device_plugin_profiles={
                "shared": {"config": {"configList": [{**POOL, "selectors": {"ifNames": [nasty]}}]}}
            },
        )
        assert objects["ServiceAccount/rdma-dp"]["metadata"]["annotations"]["note"] == nasty
        assert daemonset(objects)["spec"]["template"]["metadata"]["annotations"]["note"] == nasty
        assert container(objects)["args"][-1] == f"--log-level={nasty}"
        written = yaml.safe_load(objects["ConfigMap/rdma-dp-shared"]["data"]["config.yaml"])
        assert written["configList"][0]["selectors"]["ifNames"] == [nasty]

    @pytest.mark.parametrize("device_id", ["16e2", "0089", "10e5", "1e36", "0017", "107f"])
    def test_plugin_reads_the_ids_that_the_inventory_gives(self, render: Render, device_id: str) -> None:
        """With the plugin's own reader, which refuses what some readers of YAML take for a number."""
        pool = {**POOL, "selectors": {"vendors": ["14e4"], "deviceIDs": [device_id]}}
        objects = render(device_plugin_profiles={"shared": {"config": {"configList": [pool]}}})
        (parsed,) = config_file.parse_text(objects["ConfigMap/rdma-dp-shared"]["data"]["config.yaml"]).pools
        assert (parsed.selectors.vendors, parsed.selectors.device_ids) == (("14e4",), (device_id,))

    def test_resource_name(self, render: Render) -> None:
        objects = render(lingjun_rdma_resource_name="example.com/rdma.nic")
        document = yaml.safe_load(objects["ConfigMap/rdma-dp-shared"]["data"]["config.yaml"])
        assert config.parse(document).pools[0].resource == "example.com/rdma.nic"
        assert daemonset(objects)["metadata"]["annotations"]["lingjun.rdma/resources"] == "example.com/rdma.nic"

    def test_host_directories(self, render: Render) -> None:
        objects = render(
            device_plugin_sysfs_dir="/run/nics/sys",
            device_plugin_dev_dir="/run/nics/dev",
            device_plugin_kubelet_dir="/data/kubelet/device-plugins",
        )
        paths = {
            volume["name"]: volume["hostPath"]["path"] for volume in pod(objects)["volumes"] if "hostPath" in volume
        }
        assert paths == {"kubelet": "/data/kubelet/device-plugins", "sys": "/run/nics/sys", "dev": "/run/nics/dev"}
        assert "--host-dev=/run/nics/dev" in container(objects)["args"]
        assert "--kubelet-dir=/data/kubelet/device-plugins" in container(objects)["args"]
        (mount,) = (item for item in container(objects)["volumeMounts"] if item["name"] == "kubelet")
        assert mount["mountPath"] == "/data/kubelet/device-plugins"

    @pytest.mark.parametrize("secrets", [["one", "two"], "one, two", [{"name": "one"}, {"name": "two"}]])
    def test_pull_secrets(self, render: Render, secrets: Any) -> None:
        assert pod(render(device_plugin_image_pull_secrets=secrets))["imagePullSecrets"] == [
            {"name": "one"},
            {"name": "two"},
        ]

    def test_nothing_empty_is_written(self, render: Render) -> None:
        """Server-side apply would own a field that is there, if only empty."""
        assert not {"affinity", "imagePullSecrets"} & set(pod(render()))
        assert "annotations" not in daemonset(render())["spec"]["template"]["metadata"]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        assert pod(render(device_plugin_affinity=affinity))["affinity"] == affinity

    def test_update_on_delete(self, render: Render) -> None:
        assert daemonset(render(device_plugin_update_strategy="OnDelete"))["spec"]["updateStrategy"] == {
            "type": "OnDelete"
        }

    def test_namespace_allows_host_directories(self, render: Render) -> None:
        objects = render(device_plugin_create_namespace=True, device_plugin_namespace="rdma")
        assert next(iter(objects)) == "Namespace/rdma"
        assert objects["Namespace/rdma"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


class TestTextFromTheCommandLine:
    """-e name=value always gives text, and argument_specs leave it so."""

    @pytest.mark.parametrize("text", ["false", "no", "0", "False", "off"])
    def test_false(self, render: Render, text: str) -> None:
        assert "Namespace/kube-system" not in render(device_plugin_create_namespace=text)

    @pytest.mark.parametrize("text", ["true", "yes", "1", "True", "on"])
    def test_true(self, render: Render, text: str) -> None:
        assert "Namespace/kube-system" in render(device_plugin_create_namespace=text)

    def test_numbers(self, render: Render) -> None:
        objects = render(
            device_plugin_port="9500", device_plugin_max_unavailable="2", device_plugin_termination_grace_period="5"
        )
        assert container(objects)["ports"][0]["containerPort"] == 9500
        assert "--listen=0.0.0.0:9500" in container(objects)["args"]
        assert daemonset(objects)["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 2
        assert pod(objects)["terminationGracePeriodSeconds"] == 5
        percent = daemonset(render(device_plugin_max_unavailable="25%"))
        assert percent["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "25%"


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"device_plugin_image": ""}, ["device_plugin_image is not set", "build_image.yml"]),
            ({"device_plugin_image": " "}, ["device_plugin_image is not set"]),
            ({"device_plugin_image": "a b"}, ["device_plugin_image", "a b"]),
            ({"lingjun_rdma_resource_name": "hca"}, ["lingjun_rdma_resource_name is hca", "rdma/hca"]),
            ({"lingjun_rdma_resource_name": "a/b/c"}, ["lingjun_rdma_resource_name is a/b/c"]),
            ({"lingjun_rdma_mode": "exclusive"}, ["lingjun_rdma_mode is exclusive", "shared"]),
            ({"device_plugin_port": "0"}, ["device_plugin_port is 0"]),
            ({"device_plugin_port": "http"}, ["device_plugin_port is http"]),
            ({"device_plugin_max_unavailable": 0}, ["device_plugin_max_unavailable is 0"]),
            ({"device_plugin_max_unavailable": "101%"}, ["device_plugin_max_unavailable is 101%"]),
            ({"device_plugin_image": "registry.example/a;b"}, ["device_plugin_image is no image name"]),
            ({"device_plugin_rollout_timeout": "0"}, ["device_plugin_rollout_timeout is 0", "1 or more"]),
            ({"verify_timeout": -5}, ["verify_timeout is -5", "1 or more"]),
        ],
    )
    def test_setting(self, roles: Roles, given: dict[str, Any], words: list[str]) -> None:
        problems = roles.value(
            "device_plugin", "device_plugin_setting_problems", {"device_plugin_image": IMAGE, **given}
        )
        assert len(problems) == 1
        assert not [word for word in words if word not in problems[0]]

    def test_all_at_once(self, roles: Roles) -> None:
        given = {"device_plugin_image": "", "device_plugin_port": -1, "lingjun_rdma_mode": "nothing"}
        assert len(roles.value("device_plugin", "device_plugin_setting_problems", given)) == 3

    def test_three_mistakes_in_the_config(self, roles: Roles) -> None:
        pool = {"resourceName": "_hca", "rdmaHcaMaximum": 1000, "selectors": {"linkTypes": ["ethernot"]}}
        given = {"device_plugin_image": IMAGE, "device_plugin_profiles": {"shared": {"config": {"configList": [pool]}}}}
        problems = roles.value("device_plugin", "device_plugin_setting_problems", given)
        places = ["configList[0].resourceName", "configList[0].rdmaHcaMaximum", "configList[0].selectors.linkTypes[0]"]
        assert [place for place, problem in zip(places, problems, strict=True) if place in problem] == places

    def test_profile_that_offers_another_resource(self, roles: Roles) -> None:
        pool = {**POOL, "resourceName": "hca_a"}
        given = {"device_plugin_image": IMAGE, "device_plugin_profiles": {"shared": {"config": {"configList": [pool]}}}}
        (problem,) = roles.value("device_plugin", "device_plugin_setting_problems", given)
        assert "rdma/hca_a" in problem

    @pytest.mark.parametrize("given", [{}, {"device_plugin_port": "9400", "device_plugin_max_unavailable": "100%"}])
    def test_good_settings(self, roles: Roles, given: dict[str, Any]) -> None:
        assert (
            roles.value("device_plugin", "device_plugin_setting_problems", {"device_plugin_image": IMAGE, **given})
            == []
        )

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("unable to parse requirement: <nil>", "unable to parse requirement: <nil>. The nodes are chosen with"),
            ("No node matches a=b.", "No node matches a=b. The nodes are chosen with lingjun_rdma_node_selector"),
            ("Is the API server up?", "Is the API server up?"),
        ],
    )
    def test_nodes_that_can_not_be_read(self, roles: Roles, said: str, shown: str) -> None:
        facts = {"device_plugin_found_nodes": {"msg": said}}
        expression = "device_plugin_read_problem ~ device_plugin_read_remedy"
        text = roles.value("device_plugin", expression, {}, facts)
        assert text.startswith(shown)
        assert (text == shown) is shown.endswith("?")

    @pytest.mark.parametrize(
        ("given", "facts", "triable"),
        [
            ({}, {}, True),
            ({}, {"ansible_check_mode": True}, False),
            ({"device_plugin_create_namespace": "yes"}, {}, False),
            ({"device_plugin_create_namespace": True}, {"device_plugin_found_namespace": {"resources": []}}, False),
            ({"device_plugin_create_namespace": True}, {"device_plugin_found_namespace": {"resources": [{}]}}, True),
        ],
    )
    def test_when_applying_is_tried_first(
        self, roles: Roles, given: dict[str, Any], facts: dict[str, Any], triable: bool
    ) -> None:
        facts = {"device_plugin_found_namespace": {"skipped": True}, **facts}
        assert roles.value("device_plugin", "device_plugin_triable", given, facts) is triable

    def test_conflict(self, roles: Roles) -> None:
        item = {"kind": "ConfigMap", "metadata": {"name": "rdma-dp-shared"}}
        cause = {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl-patch"', "field": ".data"}
        status = {"reason": "Conflict", "details": {"kind": "configmaps", "name": "x", "causes": [cause]}}
        good = {"item": item, "method": "patch"}
        facts = {"device_plugin_applied": {"results": [good, {"item": item, "msg": json.dumps(status)}]}}
        problem = roles.value("device_plugin", "device_plugin_failure.say", {}, facts)
        assert problem.startswith("ConfigMap rdma-dp-shared could not be applied: ")
        assert "kubectl-patch set .data" in problem
        assert "device_plugin_force_conflicts" in problem

    def test_objects_of_others(self, roles: Roles) -> None:
        def found(kind: str, manager: str | None, namespace: str = "kube-system") -> dict[str, Any]:
            labels = {"labels": {"app.kubernetes.io/managed-by": manager}} if manager else {}
            return {"kind": kind, "metadata": {"name": "rdma-dp-shared", "namespace": namespace, **labels}}

        def strangers(daemonset: dict[str, Any], configmap: dict[str, Any]) -> Any:
            facts = {
                "device_plugin_found_daemonsets": {"resources": [daemonset]},
                "device_plugin_found_objects": {"results": [{"resources": [configmap]}, {"resources": []}]},
            }
            return roles.value("device_plugin", "device_plugin_strangers", {"device_plugin_image": IMAGE}, facts)

        ours = "lingjun.rdma"
        assert strangers(found("DaemonSet", ours), found("ConfigMap", ours)) == []
        assert strangers(found("DaemonSet", "Helm"), found("ConfigMap", None)) == [
            "DaemonSet kube-system/rdma-dp-shared",
            "ConfigMap kube-system/rdma-dp-shared",
        ]
        assert strangers(found("DaemonSet", None, "elsewhere"), found("ConfigMap", ours)) == []


def test_manifests_are_json(render: Render) -> None:
    """Plain data: a later playbook can write the same objects to files."""
    assert json.loads(json.dumps(render())) == render()
