# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From nothing to a cluster whose nodes are all Ready, in the order in which things need each other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests import nics
from tests.sandbox import cgroups, config, firewall, image, network, nodesetup, pki, programs
from tests.sandbox.api import ApiClient, schedulable
from tests.sandbox.commands import INSTALL, environment, run, which
from tests.sandbox.config import Ports
from tests.sandbox.errors import SandboxError
from tests.sandbox.layout import MARKER, MARKER_TEXT, Layout
from tests.sandbox.network import AddressPlan
from tests.sandbox.node import Node
from tests.sandbox.processes import ProcessTable
from tests.sandbox.progress import Progress
from tests.sandbox.record import Record
from tests.sandbox.remove import marked
from tests.sandbox.spec import Spec

RUNC_WRAPPER = Path(__file__).with_name("runc-wrapper.sh")
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_API_SECONDS = 60.0
_CONTROLLER_SECONDS = 60.0
_CAP_SYS_RESOURCE = 24
_TOOLS = ("containerd", "ctr", "runc", "ip", "nsenter", "unshare", "mount", "umount", "sed")


def table_of(layout: Layout) -> ProcessTable:
    """The sandbox's processes."""
    return ProcessTable(layout.records, cgroups.hierarchies().tracker / layout.id / cgroups.PROGRAMS, layout.logs)


def nodes_of(layout: Layout, record: Record) -> list[Node]:
    """The nodes of a cluster that came up."""
    client = ApiClient(str(record.plan.host), record.ports.api, layout.pki)
    return _nodes(layout, record.spec, record.plan, client, record.gpus)


def process_names(spec: Spec) -> list[str]:
    """Every process that a running sandbox has."""
    return [*_CONTROL_PLANE, *(f"{node.name}{part}" for node in spec.nodes for part in ("", "-containerd", "-kubelet"))]


def start(layout: Layout, spec: Spec, gpus: int, progress: Progress) -> Record:
    """Start everything. The caller cleans up when this raises.

    :raises SandboxError: something is missing, failed or took too long.
    """
    check_host()
    machines = _machines(spec)
    built = programs.provide(progress)
    prepare_state(layout)
    table = table_of(layout)
    cgroups.create(cgroups.hierarchies(), layout.id, tuple(node.name for node in spec.nodes))
    plan = network.create_bridge(layout)
    filtered = firewall.open_for(layout.id)
    ports = _choose_ports(spec, plan)
    client = ApiClient(str(plan.host), ports.api, layout.pki)
    _write_credentials(layout, spec, plan, ports)
    progress.say(f"network {plan.prefix} on bridge {layout.id}{', let through the packet filter' if filtered else ''}")

    table.start("etcd", [str(built["etcd"]), *config.etcd_arguments(layout)], env=environment())
    arguments = config.apiserver_arguments(layout, plan, ports)
    table.start("kube-apiserver", [str(built["kube-apiserver"]), *arguments], env=environment())
    nodes = _nodes(layout, spec, plan, client, gpus)
    _start_nodes(nodes, machines, built["kubelet"], progress)

    table.wait("the API server ready", _API_SECONDS, lambda: client.answers("/readyz"), "kube-apiserver", "etcd")
    progress.say(f"API server ready at https://{plan.host}:{ports.api}")
    arguments = config.controller_manager_arguments(layout, plan, ports)
    table.start("kube-controller-manager", [str(built["kube-controller-manager"]), *arguments], env=environment())
    arguments = config.scheduler_arguments(layout, plan, ports)
    table.start("kube-scheduler", [str(built["kube-scheduler"]), *arguments], env=environment())
    for node in nodes:
        node.start_kubelet(wait=False)
    for node in nodes:
        node.wait_ready()
        progress.say(f"{node.name} Ready")
    _wait_for_controllers(table, client, nodes)
    versions = ", ".join(f"{source.name} {source.version}" for source in programs.sources())
    return Record(spec, plan, ports, gpus, built["kubelet"], versions)


def check_host() -> None:
    """
    :raises SandboxError: something without which no sandbox can run here.
    """
    if os.geteuid() != 0:
        raise SandboxError("The sandbox needs root: it makes namespaces, mounts and cgroups. Run the command as root.")
    missing = [tool for tool in _TOOLS if which(tool) is None]
    missing += [
        f"{config.CNI_PLUGINS}/{name}"
        for name in ("bridge", "host-local", "loopback")
        if not Path(config.CNI_PLUGINS, name).exists()
    ]
    if missing:
        raise SandboxError(f"These programs are missing: {', '.join(missing)}. {INSTALL}")


def _machines(spec: Spec) -> dict[str, nics.Machine]:
    """Each node's simulated machine.

    :raises SandboxError: there is none of that name.
    """
    try:
        return {node.name: nics.machine(node.machine) for node in spec.nodes}
    except ValueError as error:
        raise SandboxError(f"--nodes: {error}.") from None


def prepare_state(layout: Layout) -> None:
    """Make the state directory, with the mark that allows `down` to empty it.

    :raises SandboxError: it holds something that is not ours.
    """
    state = layout.state
    try:
        state.mkdir(parents=True, exist_ok=True)
        if not marked(state):
            if any(state.iterdir()):
                raise SandboxError(
                    f"The state directory {state} is not empty and not a sandbox's. Name another one with --state."
                )
            (state / MARKER).write_text(MARKER_TEXT)
        shutil.rmtree(layout.logs, ignore_errors=True)  # of an earlier start that failed
        state.chmod(0o700)
        layout.run.mkdir(mode=0o700)
    except OSError as error:
        raise SandboxError(
            f"The state directory {state} can't be used: {error}. Name another one with --state."
        ) from None


def _choose_ports(spec: Spec, plan: AddressPlan) -> Ports:
    if spec.port is not None and not network.port_is_free(plan.host, spec.port):
        raise SandboxError(
            f"--port {spec.port} is in use or not allowed. Name another one, or none to take a free one."
        )
    return Ports(
        spec.port or network.free_port(plan.host, 6443),
        network.free_port(plan.host, 10257),
        network.free_port(plan.host, 10259),
    )


def _write_credentials(layout: Layout, spec: Spec, plan: AddressPlan, ports: Ports) -> None:
    """All keys, certificates and kubeconfigs, of the control plane, of the nodes and of the user."""
    authority = pki.Authority.create(f"{spec.name} CA")
    root = authority.pair.certificate
    server = f"https://{plan.host}:{ports.api}"
    authority.pair.write(layout.pki, "ca")
    names = (
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    )
    authority.server("kube-apiserver", (plan.host, plan.services[1]), names).write(layout.pki, "apiserver")
    authority.client("kube-apiserver-kubelet-client", ("system:masters",)).write(layout.pki, "apiserver-kubelet-client")
    private, public = pki.signing_key()
    pki.write_secret(layout.pki / "service-account.key", private)
    pki.write_secret(layout.pki / "service-account.pub", public)
    admin = authority.client("kubernetes-admin", ("system:masters",))
    admin.write(layout.pki, "admin")
    pki.write_secret(layout.kubeconfig, pki.kubeconfig(spec.name, f"{spec.name}-admin", server, root, admin))
    for component in ("controller-manager", "scheduler"):
        user = f"system:kube-{component}"
        content = pki.kubeconfig(spec.name, user, server, root, authority.client(user))
        pki.write_secret(layout.control_plane / f"{component}.kubeconfig", content)
    for node in spec.nodes:
        directory = layout.node(node.name, node.index).config
        user = f"system:node:{node.name}"
        content = pki.kubeconfig(spec.name, user, server, root, authority.client(user, ("system:nodes",)))
        pki.write_secret(directory / "kubelet.kubeconfig", content)
        pki.write_secret(directory / "ca.crt", root)
        authority.server(user, (plan.node(node.index),), (node.name,)).write(directory, "kubelet-server")


def _nodes(layout: Layout, spec: Spec, plan: AddressPlan, client: ApiClient, gpus: int) -> list[Node]:
    table = table_of(layout)
    return [Node(layout.node(node.name, node.index), plan, table, client, spec.plain, gpus) for node in spec.nodes]


def _start_nodes(nodes: list[Node], machines: Mapping[str, nics.Machine], kubelet: Path, progress: Progress) -> None:
    """Namespaces, cables, containerd and the base image of all nodes; kubelet comes when the API server is there."""
    base_image = nodes[0].layout.cluster.control_plane / "busybox.tar"
    image.write_base_image(base_image, config.BASE_IMAGE)
    for node in nodes:
        nodesetup.create_directories(node.layout)
        nics.build(machines[node.name], node.layout.nics, openable=True)
        _write_node_config(node)
        script = nodesetup.script(node.layout, kubelet)
        node.table.start(
            node.name, ["unshare", "--net", "--mount", "--propagation=private", "sh", "-c", script], env=environment()
        )
    for node in nodes:
        node.table.wait(f"the namespaces of {node.name}", 20.0, (node.layout.run / nodesetup.READY).exists, node.name)
        holder = node.table.find(node.name)
        assert holder is not None
        others = [other.layout.index for other in nodes if other is not node]
        network.connect(node.layout, holder.pid, node.plan, others)
        node.start_containerd()
    for node in nodes:
        socket = node.layout.run / Path(config.CONTAINERD_SOCKET).relative_to("/run")
        node.table.wait(f"containerd of {node.name}", 30.0, socket.exists, node.containerd)
        node.load_image(base_image)
    progress.say(f"containerd runs on {', '.join(node.name for node in nodes)}")


def _write_node_config(node: Node) -> None:
    layout = node.layout
    (layout.config / "kubelet.yaml").write_text(config.kubelet_config(layout.cgroup, plain=node.plain))
    (layout.config / "cni").mkdir(exist_ok=True)
    (layout.config / "cni" / "sandbox.conflist").write_text(config.cni_config(node.plan, layout.index))
    wrapper = layout.config / "runc-wrapper"
    shutil.copyfile(RUNC_WRAPPER, wrapper)
    wrapper.chmod(0o755)
    capable = _has_sys_resource(Path("/proc/self/status").read_text())
    content = config.containerd_config(
        snapshotter=_snapshotter(layout.lib),
        runtime="runc" if capable else str(config.INSIDE / wrapper.name),
        restrict_oom_score=not capable,
    )
    (layout.config / "containerd.toml").write_text(content)


def _has_sys_resource(status: str) -> bool:
    """Read from /proc/self/status."""
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_RESOURCE & 1)


def _snapshotter(directory: Path) -> str:
    """overlayfs can't be stacked on itself: when the checkout is on one, as in a container, layers are copied."""
    kind = run(["stat", "--file-system", "--format=%T", str(directory)]).strip()
    return "native" if kind == "overlayfs" else "overlayfs"


def _wait_for_controllers(table: ProcessTable, client: ApiClient, nodes: list[Node]) -> None:
    """Pods can be created once their namespace has its service account, and scheduled once the nodes' taints go."""
    manager = "kube-controller-manager"
    for namespace in ("default", "kube-system"):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        table.wait(f"{namespace}'s service account", _CONTROLLER_SECONDS, partial(client.answers, path), manager)
    for node in nodes:
        look = partial(_is_schedulable, client, node.name)
        table.wait(f"{node.name} schedulable", _CONTROLLER_SECONDS, look, manager)
    table.must_live("kube-scheduler")


def _is_schedulable(client: ApiClient, name: str) -> bool:
    return schedulable(client.node(name))
