# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One running node: its programs, its images, its simulated machine."""

from __future__ import annotations

import datetime
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import nics
from tests.sandbox import api, config
from tests.sandbox.api import ApiClient
from tests.sandbox.commands import environment, run
from tests.sandbox.errors import SandboxError
from tests.sandbox.layout import NodeLayout
from tests.sandbox.network import AddressPlan
from tests.sandbox.processes import ProcessTable, alive

READY_SECONDS = 90.0
_MANAGED = "io.cri-containerd.image=managed"  # containerd's mark on images that kubelet is shown


@dataclass(frozen=True)
class Node:
    """A node of a sandbox that runs. ``gpus`` is what its status is to show as nvidia.com/gpu; 0 for nothing."""

    layout: NodeLayout
    plan: AddressPlan
    table: ProcessTable
    client: ApiClient
    plain: bool = False
    gpus: int = 0

    @property
    def name(self) -> str:
        """As in Kubernetes."""
        return self.layout.name

    @property
    def nics(self) -> nics.Simulated:
        """The simulated machine; what is changed in it is changed inside the node at once."""
        return nics.load(self.layout.nics)

    def exec(self, command: Sequence[str], *, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command in the node's namespaces, as root, with the host's programs; the exit code is for the caller.

        :raises SandboxError: the node does not run.
        :raises subprocess.TimeoutExpired: after ``timeout`` s.
        """
        return subprocess.run(
            [*self.enter(), *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment(),
            check=False,
        )

    def enter(self) -> list[str]:
        """The words in front of a command that is to run in the node.

        :raises SandboxError: the node does not run.
        """
        holder = self.table.find(self.name)
        if holder is None or not alive(holder):
            raise SandboxError(
                f"The node {self.name} does not run. See the sandbox's status; `down` and `up` start it anew."
            )
        return ["nsenter", "--target", str(holder.pid), "--net", "--mount", "--wd=/"]

    # --- images and containers ---

    def load_image(self, archive: Path) -> list[str]:
        """Put the images of a docker-archive or OCI archive where kubelet finds them; returns their names.

        :raises SandboxError: it is no image archive, or none for this machine.
        """
        if not archive.is_file():
            raise SandboxError(f"{archive}: there is no such file. Build the images first: make image")
        try:
            with archive.open("rb") as stream:
                said = run([*self.ctr(), "images", "import", "-"], stdin=stream, timeout=300.0)
        except SandboxError as error:
            raise SandboxError(
                f"{archive} can't be loaded on {self.name}; it must be a docker-archive. {error}"
            ) from None
        names = re.findall(r"^unpacking (\S+) ", said, re.MULTILINE)
        if not names:
            raise SandboxError(
                f"{archive}: containerd of {self.name} found no image in it. It must be a docker-archive with a name."
            )
        self.table.wait(f"{archive.name} on {self.name}", 20.0, lambda: self._shown(names), self.containerd)
        return names

    def _shown(self, names: list[str]) -> bool:
        """True when kubelet can see all of the images: containerd tells itself of an import, a moment later."""
        lines = run([*self.ctr(), "images", "ls"]).splitlines()
        return {line.split()[0] for line in lines if _MANAGED in line} >= set(names)

    def kill_containers(self) -> int:
        """SIGKILL all containers and pod sandboxes, as a power cut does; returns how many. Kubelet restarts them."""
        tasks = run([*self.ctr(), "tasks", "ls", "-q"]).split()
        for task in tasks:
            try:
                run([*self.ctr(), "tasks", "kill", "--signal", "SIGKILL", "--all", task])
            except SandboxError as error:
                if "not found" not in str(error) and "already finished" not in str(error):
                    raise
        return len(tasks)

    def ctr(self) -> list[str]:
        """containerd's own client, set to the namespace that kubelet uses."""
        return [*self.enter(), "ctr", "--address", config.CONTAINERD_SOCKET, "--namespace", "k8s.io"]

    # --- kubelet ---

    @property
    def kubelet(self) -> str:
        """The name of kubelet's process and log."""
        return f"{self.name}-kubelet"

    @property
    def containerd(self) -> str:
        """The name of containerd's process and log."""
        return f"{self.name}-containerd"

    def start_containerd(self) -> None:
        """Start it; does not wait."""
        self.table.start(
            self.containerd,
            [*self.enter(), "containerd", "--config", str(config.INSIDE / "containerd.toml")],
            env=environment(),
        )

    def start_kubelet(self, *, wait: bool = True) -> None:
        """Start kubelet, unless it runs; with ``wait`` until it has reported Ready and the GPUs are on the node."""
        running = self.table.find(self.kubelet)
        if running is None or not alive(running):
            since = self._moment_after_last_report() if wait else ""
            arguments = config.kubelet_arguments(self.name, self.plan.node(self.layout.index), plain=self.plain)
            self.table.start(self.kubelet, [*self.enter(), "/run/kubelet", *arguments], env=environment())
        else:
            since = ""
        if wait:
            self.wait_ready(since)

    def _moment_after_last_report(self) -> str:
        """Now, but in a later second than kubelet's last report, so that the next one can be told from it."""
        last = api.last_report(self.client.node(self.name))
        while _now() <= last:
            time.sleep(0.05)
        return _now()

    def stop_kubelet(self) -> None:
        """Stop kubelet; pods keep running."""
        self.table.stop(self.kubelet)

    def restart_kubelet(self, *, wait: bool = True) -> None:
        """Stop and start kubelet; pods keep running."""
        self.stop_kubelet()
        self.start_kubelet(wait=wait)

    def reboot(self) -> None:
        """What a reboot of the machine is to kubelet: it and all containers end, then it starts."""
        self.stop_kubelet()
        self.kill_containers()
        self.start_kubelet()

    def wait_ready(self, not_before: str = "") -> None:
        """Until kubelet has reported Ready at ``not_before`` (as the API writes times) or later.

        :raises SandboxError: it does not within 90 s, or ended; with the last log lines.
        """
        needs = (self.kubelet, self.containerd, self.name)
        self.table.wait(
            f"{self.name} Ready", READY_SECONDS, lambda: api.ready(self.client.node(self.name), not_before), *needs
        )
        if self.gpus:
            self.table.wait(f"nvidia.com/gpu on {self.name}", 20.0, self._gpus_shown, *needs)

    def _gpus_shown(self) -> bool:
        """True when they are there, else put them there: a kubelet without a checkpoint sets such resources to 0."""
        node = self.client.node(self.name)
        if node is not None and api.gpus_of(node) == (str(self.gpus), str(self.gpus)):
            return True
        self.client.put_gpus(self.name, self.gpus)
        return False


def _now() -> str:
    """As the API writes times: whole seconds, UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
