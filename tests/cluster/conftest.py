# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sandbox cluster for each test worker, apart from the one that `make demo` leaves running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.tools import CHECKOUT, Kube, Playbooks
from tests.sandbox import Sandbox

NODES = {"node-a": "b300", "node-b": "h20"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of them may start the cluster and run several playbooks."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def images() -> list[Path]:
    """The plugin's and the test Job's image, built when their inputs changed."""
    output = CHECKOUT / "build" / "images"
    subprocess.run([sys.executable, CHECKOUT / "image" / "build.py", "--output", output], check=True)
    return [output / "rdma-dp.tar", output / "rdma-test.tar"]


@pytest.fixture(scope="session")
def cluster(images: list[Path]) -> Iterator[Sandbox]:
    """A running sandbox with both images loaded."""
    if os.geteuid() != 0:
        pytest.fail(
            "The cluster tests need root: namespaces, mounts and cgroups of the sandbox. Run make test as root."
        )
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    sandbox = Sandbox(state=CHECKOUT / "build" / f"sandbox-test-{worker}", nodes=NODES, gpus=8)
    # A CI that ends us with SIGTERM must not leave a cluster behind: it becomes a KeyboardInterrupt, as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sandbox.down()
    try:
        sandbox.up()
        sandbox.load_images(images)
        yield sandbox
    finally:
        # A second Ctrl-C must not stop the clean-up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sandbox.down()


@pytest.fixture(scope="session")
def kube(cluster: Sandbox) -> Kube:
    """What the cluster says."""
    return Kube(cluster.kubeconfig)


@pytest.fixture(scope="session")
def playbooks(cluster: Sandbox) -> Playbooks:
    """How the cluster is operated."""
    return Playbooks(cluster.kubeconfig)


@pytest.fixture
def installed(kube: Kube, playbooks: Playbooks) -> Kube:
    """The cluster after a good site.yml."""
    if not kube.plugin_pods() or set(kube.allocatable().values()) != {"1k"}:
        playbooks.succeed("site.yml")
    return kube


@pytest.fixture
def empty(kube: Kube, playbooks: Playbooks) -> Kube:
    """The cluster as it was before the first site.yml."""
    if kube.plugin_pods() or kube.get("daemonset", "rdma-dp-shared", "-n", "kube-system"):
        playbooks.succeed("playbooks/uninstall.yml", "-e", "uninstall_node_labels=true")
    return kube
