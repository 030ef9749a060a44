# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters behind the roles' refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lingjun.rdma.plugins.filter.api_problem import api_problem
from ansible_collections.lingjun.rdma.plugins.filter.foreign_plugins import foreign_plugins
from ansible_collections.lingjun.rdma.plugins.filter.off_promise import off_promise
from ansible_collections.lingjun.rdma.plugins.filter.profiles import profiles
from ansible_collections.lingjun.rdma.plugins.filter.strangers import strangers

POOL = {"resourceName": "hca", "selectors": {"rdmaDevices": ["*"]}}


def config(**changes: Any) -> dict[str, Any]:
    return {"config": {"configList": [{**POOL, **changes}]}}


class TestProfiles:
    def test_good_ones_sorted_by_name(self) -> None:
        found = profiles({"shared": config(), "exclusive": config(mode="exclusive")})
        assert [item["name"] for item in found] == ["exclusive", "shared"]
        assert [item["problems"] for item in found] == [[], []]

    @pytest.mark.parametrize(
        ("changes", "promised"),
        [
            ({}, 1000),
            ({"rdmaHcaMax": 63}, 63),
            ({"rdmaHcaScope": "nic"}, None),
            ({"mode": "exclusive"}, None),
        ],
    )
    def test_number_of_devices_that_a_node_must_offer(self, changes: dict[str, Any], promised: int | None) -> None:
        (found,) = profiles({"shared": config(**changes)})
        assert found["resources"] == {"rdma/hca": promised}

    def test_hash_is_that_of_the_meaning(self) -> None:
        one, other = profiles({"a": config(), "b": config(rdmaHcaMax=1000, mode="shared")})
        assert one["config_hash"] == other["config_hash"] != ""

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"shared": config(resourceName="_hca")}, ["Profile shared", "configList[0].resourceName"]),
            ({"shared": {}}, ["config is missing"]),
            ({"shared": None}, ["must be a mapping"]),
            ({"shared": "config.json"}, ["must be a mapping", "text"]),
            ({"shared": {"config": "{}"}}, ["must be a mapping", "text"]),
            ({"shared": {**config(), "image": "x"}}, ['"image"', "no setting of a profile"]),
            ({"draining": config()}, ["draining", "taken"]),
            ({"Shared": config()}, ["lower-case"]),
            ({"-a": config()}, ["begins and ends"]),
            ({"a" * 56: config()}, ["at most 55"]),
            ({True: config()}, ["put it in quotes"]),
        ],
    )
    def test_refused(self, given: dict[Any, Any], words: list[str]) -> None:
        ((problem,),) = [item["problems"] for item in profiles(given)]
        assert not [word for word in words if word not in problem], problem

    @pytest.mark.parametrize("nothing", [{}, None, [], "shared", ["shared"]])
    def test_no_profiles_at_all(self, nothing: Any) -> None:
        with pytest.raises(AnsibleFilterError, match="configList"):
            profiles(nothing)


def daemonset(
    name: str,
    image: str = "example/other",
    *,
    labels: dict[str, str] | None = None,
    args: list[str] | None = None,
    env: dict[str, str] | None = None,
    configmap: str = "",
    host_path: str = "/var/lib/kubelet/device-plugins",
) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "kubelet", "hostPath": {"path": host_path}}]
    if configmap:
        volumes.append({"name": "config", "configMap": {"name": configmap}})
    container = {
        "name": "main",
        "image": image,
        "args": args or [],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
    }
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels or {}},
        "spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}},
    }


def configmap(text: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "config", "namespace": "kube-system"}, "data": {"config.json": text}}]


SHARED = "mellanox/k8s-rdma-shared-dev-plugin:v1.5.2"
OURS = {"app.kubernetes.io/name": "rdma-dp", "app.kubernetes.io/managed-by": "lingjun.rdma"}


class TestForeignPlugins:
    @pytest.mark.parametrize(
        ("other", "resource", "offers"),
        [
            (daemonset("ack-rdma-dp-ds"), "rdma/hca", True),
            (daemonset("ack-rdma-dp-ds"), "rdma/ours", False),
            (daemonset("ack-rdma-dp-ds", env={"RESOURCE_NAME": "rdma/ours"}), "rdma/ours", True),
            (daemonset("any", args=["--resource=rdma/hca"]), "rdma/hca", True),
            (daemonset("any", args=["--resource=rdma/hca_a"]), "rdma/hca", False),
            (daemonset("any", args=["--resource=example.com/rdma/hca"]), "rdma/hca", False),
            (daemonset("nvidia-device-plugin-daemonset"), "rdma/hca", False),
            (daemonset("any", SHARED), "rdma/hca", True),
            (daemonset("rdma-shared-dp-ds", SHARED, configmap="config"), "rdma/hca", None),
        ],
    )
    def test_by_name_image_and_settings(self, other: dict[str, Any], resource: str, offers: bool | None) -> None:
        (found,) = foreign_plugins([other], resource)
        assert found["offers"] is offers
        assert bool(found["why"]) is (offers is True)

    @pytest.mark.parametrize(
        "other", [daemonset("rdma-dp-shared", labels=OURS), daemonset("logs", host_path="/var/log")]
    )
    def test_ours_and_those_that_are_no_plugins(self, other: dict[str, Any]) -> None:
        assert foreign_plugins([other], "rdma/hca") == []

    @pytest.mark.parametrize("manager", [{}, {"app.kubernetes.io/managed-by": "Helm"}])
    def test_name_alone_does_not_make_it_ours(self, manager: dict[str, str]) -> None:
        labels = {"app.kubernetes.io/name": "rdma-dp", **manager}
        (found,) = foreign_plugins([daemonset("rdma-dp", args=["--resource=rdma/hca"], labels=labels)], "rdma/hca")
        assert found["offers"] is True

    @pytest.mark.parametrize(
        ("text", "offers"),
        [
            (json.dumps({"configList": [{"resourceName": "hca"}]}), True),
            (json.dumps({"configList": [{"resourceName": "hca", "resourcePrefix": "rdma"}]}), True),
            (json.dumps({"configList": [{"resourceName": "hca_a"}]}), False),
            (json.dumps({"configList": [{"resourceName": "hca", "resourcePrefix": "mellanox.com"}]}), False),
            (json.dumps({"resourceList": [{"resourceName": "hca", "resourcePrefix": "rdma"}]}), True),
            ("configList:\n  - resourceName: hca\n", True),
            ("not: [a config", True),  # of the shared plugin, so it may well be
        ],
    )
    def test_by_its_configmap(self, text: str, offers: bool) -> None:
        other = daemonset("rdma-shared-dp-ds", SHARED, configmap="config")
        (before,) = foreign_plugins([other], "rdma/hca")
        assert before["configmaps"] == [{"namespace": "kube-system", "name": "config"}]
        (found,) = foreign_plugins([other], "rdma/hca", configmap(text))
        assert found["offers"] is offers

    def test_configmap_that_is_gone(self) -> None:
        (found,) = foreign_plugins([daemonset("rdma-shared-dp-ds", SHARED, configmap="config")], "rdma/hca", [])
        assert found["offers"] is True
        (found,) = foreign_plugins([daemonset("nvidia", configmap="config")], "rdma/hca", [])
        assert found["offers"] is False


def test_strangers() -> None:
    def thing(**labels: str) -> dict[str, Any]:
        return {"kind": "Job", "metadata": {"name": "test", "namespace": "default", "labels": labels or None}}

    managed = thing(**{"app.kubernetes.io/managed-by": "lingjun.rdma"})
    helm = thing(**{"app.kubernetes.io/managed-by": "Helm"})
    assert strangers([managed], "lingjun.rdma") == []
    assert strangers([helm, managed, thing()], "lingjun.rdma") == ["Job default/test"] * 2


def test_off_promise() -> None:
    def node(name: str, mode: str | None, have: int) -> dict[str, Any]:
        return {"name": name, "mode": mode, "allocatable": {"rdma/hca": have}}

    reports = profiles({"shared": config(rdmaHcaMax=500), "exclusive": config(mode="exclusive")})
    nodes = [
        node("a", "shared", 500),
        node("b", "shared", 1000),
        node("c", "exclusive", 7),
        node("d", None, 3),
        node("e", "else", 3),
    ]
    assert off_promise(nodes, reports, "rdma/hca") == ["b offers 1000, its profile shared says 500"]
    assert off_promise(nodes, [], "rdma/hca") == []


def status(reason: str, message: str, **details: Any) -> str:
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": details})


class TestApiProblem:
    FORBIDDEN = 'daemonsets.apps is forbidden: User "robot" cannot list resource "daemonsets"'

    @pytest.mark.parametrize(
        "text",
        [
            "Failed to apply object: " + status("Forbidden", FORBIDDEN),
            f"Failed to retrieve requested object: {status('Forbidden', FORBIDDEN).encode()!r}",
            "403\nReason: Forbidden\nHTTP response body: " + status("Forbidden", FORBIDDEN) + "\n",
        ],
    )
    def test_the_servers_own_words(self, text: str) -> None:
        assert api_problem({"msg": text}).startswith(self.FORBIDDEN + ". Use an account")

    @pytest.mark.parametrize(("said", "shown"), [("Is it up?", "Is it up?"), ("No.", "No."), ("No", "No.")])
    def test_one_stop_at_the_end(self, said: str, shown: str) -> None:
        assert api_problem({"msg": said}) == shown

    def test_remedy_by_reason(self) -> None:
        text = status("NotFound", 'namespaces "rdma" not found')
        assert api_problem({"msg": text}, {"NotFound": "Create it."}) == 'namespaces "rdma" not found. Create it.'

    def test_conflict_names_fields_and_owners(self) -> None:
        cause = {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-set" using apps/v1',
            "field": '.spec.template.spec.containers[name="rdma-dp"].image',
        }
        text = status(
            "Conflict", "Apply failed with 1 conflict", kind="daemonsets", name="rdma-dp-shared", causes=[cause]
        )
        sentence = api_problem({"msg": "Failed to apply object: " + text}, {"Conflict": "Force it."})
        assert "kubectl-set set .spec.template.spec.containers" in sentence
        assert sentence.endswith(". Force it.")

    @pytest.mark.parametrize("result", [{}, {"msg": ""}, {"changed": False}])
    def test_no_words_at_all(self, result: dict[str, Any]) -> None:
        """kubernetes.core does not catch a lost connection; Ansible hides the exception."""
        assert "-vvv" in api_problem(result)

    def test_no_traceback(self) -> None:
        crash = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: bad thing\n'
        assert api_problem({"msg": "MODULE FAILURE: see stdout", "module_stderr": crash}) == "ValueError: bad thing."

    def test_long_texts_are_cut(self) -> None:
        assert len(api_problem({"msg": "x" * 5000})) < 700
