# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs are told: pure functions from names, addresses and paths to configuration files and arguments.

Paths given to a node's programs are those inside the node, see :mod:`tests.sandbox.nodesetup`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml

from tests.sandbox.layout import Layout
from tests.sandbox.network import AddressPlan

LINGJUN_LABEL = "alibabacloud.com/lingjun-worker=true"
LINGJUN_TAINT = {"key": "node-role.alibabacloud.com/lingjun", "effect": "NoSchedule"}
# busybox with `sleep` as command: the sandbox container of every pod, and a shell for whoever tries things out.
BASE_IMAGE = "localhost/sandbox/busybox:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"
INSIDE = Path("/run/sandbox")  # where a node sees its configuration


@dataclass(frozen=True)
class Ports:
    """The control plane's TCP ports on the bridge's address."""

    api: int
    controller_manager: int
    scheduler: int


def etcd_arguments(layout: Layout) -> list[str]:
    """One member, on Unix sockets only. The advertised addresses must look like TCP ones; nobody uses them."""
    return [
        "--name=sandbox",
        f"--data-dir={layout.state / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls=unix://{layout.etcd_socket}",
        "--advertise-client-urls=http://localhost:2379",
        f"--listen-peer-urls=unix://{layout.run / 'etcd-peer.sock'}",
        "--initial-advertise-peer-urls=http://localhost:2380",
        "--initial-cluster=sandbox=http://localhost:2380",
        "--enable-grpc-gateway=false",
        "--log-level=warn",
    ]


def apiserver_arguments(layout: Layout, plan: AddressPlan, ports: Ports) -> list[str]:
    """Listens on the bridge's address only; reaches kubelets by their address and checks their certificates."""
    pki = layout.pki
    return [
        f"--etcd-servers=unix://{layout.etcd_socket}",
        f"--bind-address={plan.host}",
        f"--advertise-address={plan.host}",
        f"--secure-port={ports.api}",
        f"--service-cluster-ip-range={plan.services}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        "--profiling=false",
    ]


def controller_manager_arguments(layout: Layout, plan: AddressPlan, ports: Ports) -> list[str]:
    """All controllers, each with its own service account, as kubeadm sets it up."""
    own = layout.control_plane / "controller-manager.kubeconfig"
    return [
        *_component_arguments(own, plan, ports.controller_manager),
        "--use-service-account-credentials",
        # Each of the 40 controllers makes its account first: with the default of 20 calls/s that takes 4 s.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={layout.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={layout.pki / 'ca.key'}",
        # The default is a directory of the machine, which would be created there.
        f"--flex-volume-plugin-dir={layout.control_plane / 'volume-plugins'}",
    ]


def scheduler_arguments(layout: Layout, plan: AddressPlan, ports: Ports) -> list[str]:
    """The default scheduler."""
    return _component_arguments(layout.control_plane / "scheduler.kubeconfig", plan, ports.scheduler)


def _component_arguments(kubeconfig: Path, plan: AddressPlan, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={plan.host}",
        f"--secure-port={port}",
        "--leader-elect=false",
        "--profiling=false",
    ]


def kubelet_arguments(name: str, address: IPv4Address, *, plain: bool) -> list[str]:
    """What can't be said in kubelet's configuration file."""
    arguments = [
        f"--config={INSIDE / 'kubelet.yaml'}",
        f"--kubeconfig={INSIDE / 'kubelet.kubeconfig'}",
        f"--hostname-override={name}",
        f"--node-ip={address}",
        "--v=2",
    ]
    return arguments if plain else [*arguments, f"--node-labels={LINGJUN_LABEL}"]


def kubelet_config(cgroup: str, *, plain: bool) -> str:
    """kubelet.yaml. Where it differs from the defaults, a comment says why."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(INSIDE / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(INSIDE / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(INSIDE / "kubelet-server.key"),
        # Several kubelets share the machine's cgroups: with a common root each removes the others' pods.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        # The machine's name servers are none of the pods' business, and may not be reachable from them.
        "resolvConf": "",
        "clusterDomain": "cluster.local",
        # The default is a directory of the machine, which would be created there.
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # All nodes share the machine's disk, which may be nearly full without being short for a test.
        "evictionHard": dict.fromkeys(
            ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"), "1%"
        ),
        # A changed ConfigMap reaches a pod with the next of these rounds; the default is a minute.
        "syncFrequency": "5s",
        # There is no registry to get a collected image back from.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }
    if not plain:
        config["registerWithTaints"] = [LINGJUN_TAINT]
    return yaml.safe_dump(config, sort_keys=False)


def containerd_config(*, snapshotter: str, runtime: str, restrict_oom_score: bool) -> str:
    """containerd.toml for 1.6 and later 1.x.

    :param runtime: the OCI runtime inside the node: runc or the wrapper around it.
    :param restrict_oom_score: the machine does not let us make a process less likely to be killed.
    """
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", \
"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", \
"io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{BASE_IMAGE}"
restrict_oom_score_adj = {str(restrict_oom_score).lower()}
# A profile that containerd loads would stay in the kernel after the sandbox is gone.
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{INSIDE / "cni"}"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runtime}"
SystemdCgroup = false
"""


def cni_config(plan: AddressPlan, index: int) -> str:
    """Pods with their own address hang on a bridge of the node; the way out is the node."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(plan.pods(index))}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/cni",
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "sandbox", "plugins": [bridge]}, indent=2) + "\n"
