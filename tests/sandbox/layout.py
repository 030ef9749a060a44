# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a sandbox keeps its things and what they are called.

Everything outside the state directory carries an id made from that directory's path. So several sandboxes can run on
one machine, and `down` finds what belongs to one of them even when every record is lost.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

# Present in every state directory of ours; without it nothing in the directory is touched.
MARKER = "SANDBOX"
MARKER_TEXT = "State of a sandbox cluster: `python -m tests.sandbox down --state DIR` removes it.\n"
# All that `up` puts into the state directory; `down` removes these and no other names.
CONTENTS = ("kubeconfig", "state.json", "pki", "etcd", "nodes", "control-plane", "logs", MARKER)


@dataclass(frozen=True)
class Layout:
    """Names and paths of one sandbox. ``state`` is absolute, see :func:`layout_of`."""

    state: Path
    runtime: Path = Path("/run")

    @property
    def id(self) -> str:
        """Ten characters: short enough for network interfaces (15) with a node's number behind it."""
        return "lrs-" + hashlib.sha256(str(self.state).encode()).hexdigest()[:6]

    @property
    def run(self) -> Path:
        """Sockets and process records. Unix socket paths end at 107 bytes, and a checkout's path may be longer."""
        return self.runtime / self.id

    @property
    def records(self) -> Path:
        """One file per running process."""
        return self.run / "processes"

    @property
    def etcd_socket(self) -> Path:
        """Where etcd serves: no port, and nobody but root gets in."""
        return self.run / "etcd.sock"

    @property
    def kubeconfig(self) -> Path:
        """For the user; mode 0600."""
        return self.state / "kubeconfig"

    @property
    def state_file(self) -> Path:
        """What runs: see :mod:`tests.sandbox.record`."""
        return self.state / "state.json"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def control_plane(self) -> Path:
        """kubeconfigs of controller-manager and scheduler, and the API server's admin client."""
        return self.state / "control-plane"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.state / "logs"

    def node(self, name: str, index: int) -> NodeLayout:
        """The paths of one node."""
        return NodeLayout(self, name, index)


@dataclass(frozen=True)
class NodeLayout:
    """Names and paths of one node, as the host sees them. Inside, they are at their ordinary places: see nodesetup."""

    cluster: Layout
    name: str
    index: int

    @property
    def veth(self) -> str:
        """The host's end of the node's cable."""
        return f"{self.cluster.id}-{self.index}"

    @property
    def cgroup(self) -> str:
        """Kubelet's cgroupRoot, below every hierarchy's mount point."""
        return f"{self.cluster.id}/{self.name}"

    @property
    def state(self) -> Path:
        """All of the node that may grow or hold device nodes; /run is often small and mounted nodev."""
        return self.cluster.state / "nodes" / self.name

    @property
    def run(self) -> Path:
        """Becomes the node's /run."""
        return self.cluster.run / str(self.index)

    @property
    def lib(self) -> Path:
        """Becomes the node's /var/lib."""
        return self.state / "lib"

    @property
    def log(self) -> Path:
        """Becomes the node's /var/log."""
        return self.state / "log"

    @property
    def config(self) -> Path:
        """Becomes the node's /run/sandbox: configuration and credentials of its programs."""
        return self.state / "config"

    @property
    def nics(self) -> Path:
        """Becomes the node's /run/simulated-nics; holds sys/ and dev/."""
        return self.state / "nics"


def layout_of(state: Path) -> Layout:
    """The layout below ``state``, whichever way the directory is named (relative, through a link)."""
    return Layout(state.resolve())
