# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting, stopping and describing a whole sandbox cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.sandbox import bootstrap, remove
from tests.sandbox.api import ApiClient, ready
from tests.sandbox.errors import ProgramFailed, SandboxError
from tests.sandbox.layout import Layout, layout_of
from tests.sandbox.network import one_at_a_time
from tests.sandbox.node import Node
from tests.sandbox.processes import Process, alive
from tests.sandbox.progress import Progress
from tests.sandbox.record import Record, read, write
from tests.sandbox.spec import DEFAULT_NODES, Spec, node_specs, parse_nodes

DEFAULT_STATE = Path(__file__).resolve().parents[2] / "build" / "sandbox"
_PATIENCE = 900.0  # s to wait for another command on the same sandbox; a cold build takes five minutes


@dataclass(frozen=True)
class Status:
    """What runs of a sandbox. ``record`` is None unless it once came up completely."""

    record: Record | None
    processes: tuple[Process, ...]
    dead: tuple[str, ...]  # names of recorded processes that have ended
    api_ready: bool
    nodes: Mapping[str, bool]  # name to Ready
    leftovers: bool  # anything exists at all

    @property
    def up(self) -> bool:
        """Everything runs and answers."""
        return self.record is not None and not self.dead and self.api_ready and all(self.nodes.values())


class Sandbox:
    """One cluster, known by its state directory.

    :param state: where it keeps its things; default build/sandbox in the checkout.
    :param nodes: name to simulated machine, see tests/nics.
    :param gpus: how many ``nvidia.com/gpu`` each node's status shows; 0 for none.
    :param plain: nodes without Lingjun's label and taint.
    :param port: of the API server; default the first free one from 6443 on.
    :param name: of the cluster, user and context in the kubeconfig.
    """

    def __init__(
        self,
        state: Path = DEFAULT_STATE,
        nodes: Mapping[str, str] | None = None,
        *,
        gpus: int = 0,
        plain: bool = False,
        port: int | None = None,
        name: str = "sandbox",
        progress: Progress | None = None,
    ) -> None:
        specs = node_specs(parse_nodes(DEFAULT_NODES) if nodes is None else nodes)
        self.spec = Spec(specs, name=name, plain=plain, port=port)
        self.gpus = gpus
        self.layout: Layout = layout_of(state)
        self.progress = progress or Progress()

    @property
    def kubeconfig(self) -> Path:
        """For the administrator of the cluster."""
        return self.layout.kubeconfig

    def up(self) -> None:
        """Start it, or do nothing when it runs already; a broken one is removed first. On failure nothing is left.

        :raises SandboxError: what failed, with its last log lines; or the one that runs is another one.
        """
        with self._alone():
            if self._is_up():
                return
            try:
                record = bootstrap.start(self.layout, self.spec, self.gpus, self.progress)
                write(self.layout.state_file, record)
            except BaseException as error:
                # After a failure the logs are what there is to look at; an interruption is to leave nothing.
                remove.remove(self.layout, keep_logs=isinstance(error, Exception))
                raise

    def down(self) -> int:
        """Remove it without a trace, in whatever state it is; returns how many processes were ended."""
        with self._alone():
            return remove.remove(self.layout)

    def status(self) -> Status:
        """Look, change nothing."""
        record = read(self.layout.state_file)
        processes = tuple(bootstrap.table_of(self.layout).all())
        dead = tuple(process.name for process in processes if not alive(process))
        api_ready, nodes = False, {}
        if record is not None:
            expected = set(bootstrap.process_names(record.spec))
            dead = tuple(sorted({*dead, *(expected - {process.name for process in processes})}))
            client = ApiClient(str(record.plan.host), record.ports.api, self.layout.pki)
            api_ready = not dead and client.answers("/readyz")
            nodes = {node.name: api_ready and ready(client.node(node.name)) for node in record.spec.nodes}
        return Status(record, processes, dead, api_ready, nodes, remove.exists(self.layout))

    def node(self, name: str) -> Node:
        """One of its nodes.

        :raises SandboxError: it does not run, or has no such node.
        """
        record = self._record()
        for node in bootstrap.nodes_of(self.layout, record):
            if node.name == name:
                return node
        raise SandboxError(
            f"There is no node {name!r} in this sandbox; it has {', '.join(node.name for node in record.spec.nodes)}."
        )

    @property
    def nodes(self) -> list[Node]:
        """All of them, in the order given."""
        return bootstrap.nodes_of(self.layout, self._record())

    def load_images(self, archives: Iterable[Path]) -> None:
        """Put images (docker-archive files) on every node.

        :raises SandboxError: it does not run, or a file is no image archive.
        """
        nodes = self.nodes
        for archive in archives:
            with ThreadPoolExecutor(len(nodes)) as pool:
                names = list(pool.map(lambda node, file=archive: node.load_image(Path(file)), nodes))
            self.progress.say(f"{', '.join(names[0])} on {', '.join(node.name for node in nodes)}")

    def _record(self) -> Record:
        record = read(self.layout.state_file)
        if record is None:
            raise SandboxError(
                f"No sandbox runs with the state directory {self.layout.state}. Start it: make cluster-up"
            )
        return record

    def _is_up(self) -> bool:
        """True when it runs as asked for; whatever else is there has been removed.

        :raises SandboxError: it runs with other settings.
        """
        status = self.status()
        broken = "left over from an earlier run"
        if status.record is not None and not status.dead:
            self._must_match(status.record)
            try:
                self._settle(status.record)
                self.progress.say("already up")
                return True
            except ProgramFailed as error:
                broken = str(error).splitlines()[0]
        elif status.dead:
            broken = f"{', '.join(status.dead)} does not run"
        if status.leftovers:
            self.progress.say(f"cleaning up first: {broken}")
            remove.remove(self.layout)
        return False

    def _must_match(self, record: Record) -> None:
        wanted, running = self.spec, record.spec
        if replace(wanted, port=None) != replace(running, port=None) or wanted.port not in (None, record.ports.api):
            nodes = ",".join(f"{node.name}={node.machine}" for node in running.nodes)
            plain = " --plain" if running.plain else ""
            raise SandboxError(
                f"The sandbox in {self.layout.state} runs with other settings: --nodes {nodes} --name {running.name} "
                f"--port {record.ports.api}{plain}. Stop it first: make cluster-down"
            )

    def _settle(self, record: Record) -> None:
        """Wait until all nodes are Ready and show as many GPUs as asked for; who asks for none takes what is there."""
        if self.gpus and self.gpus != record.gpus:
            record = replace(record, gpus=self.gpus)
            write(self.layout.state_file, record)
        for node in bootstrap.nodes_of(self.layout, record):
            node.wait_ready()

    def _alone(self) -> AbstractContextManager[None]:
        busy = f"Another command has been at work on {self.layout.state} for {_PATIENCE:.0f} s. See which: ps -ef"
        wait = partial(self.progress.say, "another command is at work on this sandbox; waiting for it")
        return one_at_a_time(self.layout.id, _PATIENCE, busy, wait)
