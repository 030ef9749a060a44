# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a process becomes a node: what it sees at the places that kubelet and containerd have fixed.

A node is a network and a mount namespace, held by one process that sleeps. In it

    /run                 is the node's own: containerd's state and sockets, pods' network namespaces, CNI's leases
    /var/lib, /var/log   are the node's own: kubelet, containerd, pods' logs
    /run/sandbox         is its configuration, /run/kubelet its program
    /run/simulated-nics  is its simulated machine: sys/ and dev/

and everything else is the host's. Nothing is created in the host's own directories for it.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.sandbox.layout import NodeLayout

# Kubelet sets these for the whole machine, and they would stay: show it files that already say so. Values: kubelet's
# setupKernelTunables.
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
READY = "ready"


def create_directories(node: NodeLayout) -> None:
    """All directories and files that :func:`script` mounts or mounts on."""
    for directory in (node.lib, node.log, node.config, node.nics, node.lib / "kubelet"):
        directory.mkdir(parents=True, exist_ok=True)
    for name in ("lib", "log", "sandbox", "simulated-nics", "sysctl", "containerd", "netns", "cni", "lock"):
        (node.run / name).mkdir(parents=True, exist_ok=True)
    (node.run / "kubelet").touch()
    for name, value in _SYSCTLS.items():
        (node.run / "sysctl" / name.replace("/", ".")).write_text(f"{value}\n")


def script(node: NodeLayout, kubelet: Path) -> str:
    """The shell script that runs first in the node's namespaces. It ends in a sleep that holds them.

    All of the node's directories are first gathered below its future /run, so that it does not matter where on the host
    they are: mounting over /run or /var/lib may hide them.
    """
    run = node.run
    binds = [
        (node.lib, run / "lib"),
        (node.log, run / "log"),
        (node.config, run / "sandbox"),
        (node.nics, run / "simulated-nics"),
        (kubelet, run / "kubelet"),
    ]
    lines = ["set -eu", *(_mount("--bind", str(source), str(target)) for source, target in binds)]
    lines += [_mount("--bind", str(run / "sysctl" / name.replace("/", ".")), f"/proc/sys/{name}") for name in _SYSCTLS]
    lines += [
        _mount("--rbind", str(run), "/run"),
        _mount("--bind", "/run/lib", "/var/lib"),
        _mount("--bind", "/run/log", "/var/log"),
        # Volumes that a pod mounts with propagation are to be seen by others of the node.
        _mount("--bind", "/var/lib/kubelet", "/var/lib/kubelet"),
        _mount("--make-shared", "/var/lib/kubelet"),
        f"touch /run/{READY}",
        "exec sleep infinity",
    ]
    return "\n".join(lines) + "\n"


def _mount(*arguments: str) -> str:
    return shlex.join(("mount", *arguments))
