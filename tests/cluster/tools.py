# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the cluster tests act and look: ansible-playbook as a user runs it, kubectl for what the cluster says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
INVENTORY = CHECKOUT / "tests" / "demo" / "inventory.yml"
NAMESPACE = "kube-system"
RESOURCE = "rdma/hca"

T = TypeVar("T")


def eventually(look: Callable[[], T], good: Callable[[T], bool], seconds: float, what: str) -> T:
    """Look again and again until ``good``; the last thing seen is in the failure's message."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if good(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; last seen: {seen!r}")
        time.sleep(0.2)


@dataclass(frozen=True)
class PlaybookRun:
    """How one ansible-playbook ended."""

    rc: int
    output: str
    seconds: float

    @property
    def recap(self) -> dict[str, int]:
        """ok, changed, failed, … of localhost; empty when there was no recap."""
        line = re.search(r"^localhost\s+: (.*)$", self.output, re.MULTILINE)
        return {key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", line.group(1))} if line else {}

    @property
    def failure(self) -> str:
        """The text of the failed task: what a user reads."""
        found = re.search(r"\[ERROR\]: (.*?)\n\n|fatal: (.*?)\n\n", self.output, re.DOTALL)
        return found.group(0) if found else ""


@dataclass(frozen=True)
class Kube:
    """kubectl against one cluster."""

    kubeconfig: Path

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of ``kubectl arguments``; raises CalledProcessError with the message in ``stderr``."""
        command = [str(BIN / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """The parsed answer of ``kubectl get``; None when the object does not exist."""
        text = self.run("get", *arguments, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a list."""
        found = self.get(*arguments)
        return list(found["items"]) if found else []

    def allocatable(self) -> dict[str, str | None]:
        """Node name to its allocatable ``rdma/hca`` as the API writes it."""
        return {
            node["metadata"]["name"]: node["status"].get("allocatable", {}).get(RESOURCE)
            for node in self.items("nodes")
        }

    def plugin_pods(self) -> list[dict[str, Any]]:
        """The pods of all rdma-dp DaemonSets."""
        return self.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=rdma-dp")

    def fingerprint(self) -> dict[str, Any]:
        """Everything that a playbook of ours could change, without what the cluster itself keeps changing."""
        kinds = "configmaps,daemonsets,serviceaccounts,jobs,namespaces,validatingadmissionpolicies,clusterroles,roles"
        objects = {
            f"{item['kind']}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}": item["metadata"].get(
                "generation"
            )
            for item in self.items(kinds, "--all-namespaces")
        }
        nodes = {
            node["metadata"]["name"]: (
                node["metadata"]["labels"],
                node["spec"].get("taints"),
                node["spec"].get("unschedulable"),
            )
            for node in self.items("nodes")
        }
        return {"objects": objects, "nodes": nodes}


@dataclass
class Playbooks:
    """ansible-playbook from the checkout, against one cluster."""

    kubeconfig: Path
    runs: list[PlaybookRun] = field(default_factory=list)

    def run(
        self,
        playbook: str,
        *arguments: str,
        env: dict[str, str] | None = None,
        inventory: Path | str | None = INVENTORY,
    ) -> PlaybookRun:
        """Run ``playbook`` (a path in the checkout, or a name with the collection's in front)."""
        command = [str(BIN / "ansible-playbook"), playbook, *arguments]
        if inventory is not None:
            command += ["-i", str(inventory)]
        environment = os.environ | {
            "K8S_AUTH_KUBECONFIG": str(self.kubeconfig),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=environment | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        run = PlaybookRun(done.returncode, done.stdout, time.monotonic() - started)
        print(f"$ ansible-playbook {playbook} {' '.join(arguments)}  # rc {run.rc}, {run.seconds:.1f} s\n{run.output}")
        self.runs.append(run)
        return run

    def succeed(self, playbook: str, *arguments: str, **options: Any) -> PlaybookRun:
        """Run it, and fail the test when it fails."""
        run = self.run(playbook, *arguments, **options)
        assert run.rc == 0, f"{playbook} failed:\n{run.output[-4000:]}"
        return run


@contextmanager
def changed_file(path: Path, text: str) -> Iterator[None]:
    """The file with other content for a while."""
    before = path.read_bytes()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_bytes(before)
