# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs are told, held against what SANDBOX rules and Kubernetes' security ask for."""

from __future__ import annotations

import json
import tomllib
from ipaddress import IPv4Network
from pathlib import Path

import pytest
import yaml

from tests.sandbox import bootstrap, config, nodesetup
from tests.sandbox.config import Ports
from tests.sandbox.layout import Layout, layout_of
from tests.sandbox.network import AddressPlan

LAYOUT = Layout(Path("/somewhere/build/sandbox"))
NODE = LAYOUT.node("node-a", 0)
PLAN = AddressPlan(IPv4Network("10.88.0.0/16"))
PORTS = Ports(6443, 10257, 10259)


def flags(arguments: list[str]) -> dict[str, str]:
    return {name: value for name, _unused, value in (argument.partition("=") for argument in arguments)}


def test_the_api_server_authorizes_checks_kubelets_and_listens_on_the_bridge_only() -> None:
    api = flags(config.apiserver_arguments(LAYOUT, PLAN, PORTS))
    assert api["--authorization-mode"] == "Node,RBAC"
    assert api["--enable-admission-plugins"] == "NodeRestriction"
    assert api["--bind-address"] == "10.88.0.1"
    assert api["--kubelet-certificate-authority"].endswith("/pki/ca.crt")
    assert "--anonymous-auth" not in api


def test_nothing_skips_verification() -> None:
    everything = [
        *config.apiserver_arguments(LAYOUT, PLAN, PORTS),
        *config.controller_manager_arguments(LAYOUT, PLAN, PORTS),
        *config.scheduler_arguments(LAYOUT, PLAN, PORTS),
        config.kubelet_config("x/node-a", plain=False),
    ]
    assert not any("insecure" in text for text in everything)


def test_etcd_serves_on_unix_sockets_only() -> None:
    etcd = flags(config.etcd_arguments(LAYOUT))
    assert etcd["--listen-client-urls"].startswith("unix:///run/")
    assert etcd["--listen-peer-urls"].startswith("unix:///run/")


def test_each_kubelet_has_its_own_cgroup_root_and_asks_the_api_server_who_may() -> None:
    kubelet = yaml.safe_load(config.kubelet_config(NODE.cgroup, plain=False))
    assert kubelet["cgroupRoot"] == f"/{LAYOUT.id}/node-a"
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}


def test_nodes_look_like_lingjun_nodes_unless_plain() -> None:
    lingjun = yaml.safe_load(config.kubelet_config("x", plain=False))
    assert lingjun["registerWithTaints"] == [{"key": "node-role.alibabacloud.com/lingjun", "effect": "NoSchedule"}]
    assert "--node-labels=alibabacloud.com/lingjun-worker=true" in config.kubelet_arguments(
        "n", PLAN.node(0), plain=False
    )
    assert "registerWithTaints" not in yaml.safe_load(config.kubelet_config("x", plain=True))
    assert not any("lingjun" in argument for argument in config.kubelet_arguments("n", PLAN.node(0), plain=True))


def test_containerd_config_is_toml_with_the_given_runtime() -> None:
    text = config.containerd_config(snapshotter="overlayfs", runtime="/run/sandbox/x", restrict_oom_score=True)
    cri = tomllib.loads(text)["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == config.BASE_IMAGE
    assert cri["restrict_oom_score_adj"] is True
    assert cri["containerd"]["snapshotter"] == "overlayfs"
    assert cri["containerd"]["runtimes"]["runc"]["options"] == {"BinaryName": "/run/sandbox/x", "SystemdCgroup": False}


def test_each_nodes_pods_have_their_own_subnet() -> None:
    (bridge,) = json.loads(config.cni_config(PLAN, 1))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.88.2.0/24"}]]


# Bit 24 is CAP_SYS_RESOURCE (capability.h).
@pytest.mark.parametrize(("effective", "has"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_the_missing_capability_is_seen(effective: str, has: bool) -> None:
    assert bootstrap._has_sys_resource(f"Name:\tpython\nCapEff:\t{effective}\n") is has


def test_unix_sockets_fit_however_long_the_checkouts_path_is() -> None:
    layout = Layout(Path("/" + "x" * 200) / "build" / "sandbox")
    assert len(bytes(layout.etcd_socket)) < 60
    assert len(bytes(layout.node("n" * 63, 99).run / "containerd" / "containerd.sock")) < 60


def test_ids_differ_by_state_directory_and_fit_an_interfaces_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert layout_of(tmp_path / "link").id == layout_of(tmp_path / "a").id == layout_of(tmp_path / "b" / ".." / "a").id
    assert layout_of(tmp_path / "a").id != layout_of(tmp_path / "b").id
    assert len(LAYOUT.node("n" * 63, 99).veth) <= 15


def test_a_nodes_script_mounts_over_run_and_var_lib_last_and_only_with_quoted_paths() -> None:
    layout = Layout(Path("/var/lib/some one's/run"))
    lines = nodesetup.script(layout.node("node-a", 0), Path("/opt/kube let")).splitlines()
    sources = [number for number, line in enumerate(lines) if "some one" in line or "kube let" in line]
    hides = min(number for number, line in enumerate(lines) if line.endswith((" /run", " /var/lib")))
    assert sources
    assert max(sources) < hides
    assert all("'/var/lib/some one'\"'\"'s/run" in lines[number] for number in sources if "some one" in lines[number])
