# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``python -m tests.sandbox up | down | status | load-image | restart-kubelet | exec | build``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.sandbox import programs
from tests.sandbox.cluster import DEFAULT_STATE, Sandbox
from tests.sandbox.commands import INSTALL, environment
from tests.sandbox.errors import SandboxError
from tests.sandbox.processes import alive, resident_kib
from tests.sandbox.progress import Progress
from tests.sandbox.spec import DEFAULT_NODES, parse_nodes

_NOT_UP = 1
_INTERRUPTED = 130


class _Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP: unwinds through everything, so that a start that is not complete is taken away."""


def parser() -> argparse.ArgumentParser:
    """The arguments and what they mean."""
    top = argparse.ArgumentParser(
        prog="python -m tests.sandbox", description="A real Kubernetes cluster on this machine."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--state", type=Path, default=DEFAULT_STATE, metavar="DIR", help="its state directory (build/sandbox)"
    )

    up = commands.add_parser("up", parents=[common], help="start it; does nothing when it is up")
    up.add_argument("--name", default="sandbox", metavar="N", help="of cluster and context in the kubeconfig (sandbox)")
    up.add_argument("--nodes", default=DEFAULT_NODES, metavar="LIST", help=f"name=machine,... ({DEFAULT_NODES})")
    up.add_argument(
        "--gpus", type=_count, default=0, metavar="N", help="nvidia.com/gpu on each node's status (0: none)"
    )
    up.add_argument("--port", type=_port, metavar="P", help="of the API server (the first free one from 6443 on)")
    up.add_argument("--plain", action="store_true", help="nodes without Lingjun's label and taint")
    commands.add_parser("down", parents=[common], help="remove everything, also after a crash")
    commands.add_parser("status", parents=[common], help="what runs; exit code 1 unless all of it does")
    load = commands.add_parser("load-image", parents=[common], help="put images on every node")
    load.add_argument("files", nargs="+", type=Path, metavar="FILE", help="docker-archive")
    restart = commands.add_parser(
        "restart-kubelet", parents=[common], help="stop and start a node's kubelet; pods keep running"
    )
    restart.add_argument("node", metavar="NODE")
    execute = commands.add_parser("exec", parents=[common], help="run a command in a node's namespaces")
    execute.add_argument("node", metavar="NODE")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD")
    commands.add_parser("build", help="only make the programs, or find them")
    return top


def main(argv: Sequence[str]) -> int:
    """Run one command; returns its exit code: 0 good, 1 failed or not up, 2 wrong usage, 130 interrupted."""
    options = parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _run(options)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read our output has seen enough, as in `status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"{error.filename or 'The system'}: {error.strerror or error}.", file=sys.stderr)
        return 1
    except _Interrupted:
        print("Interrupted; what was started is removed again.", file=sys.stderr)
        return _INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    progress = Progress()
    if options.command == "build":
        for name, path in programs.provide(progress).paths.items():
            print(f"{name}: {path}")
        return 0
    if options.command == "up":
        return _up(options, progress)
    sandbox = Sandbox(options.state, progress=progress)
    if options.command == "down":
        return _down(sandbox)
    if options.command == "status":
        return _status(sandbox)
    if options.command == "load-image":
        sandbox.load_images(options.files)
    elif options.command == "restart-kubelet":
        sandbox.node(options.node).restart_kubelet()
        progress.say(f"kubelet of {options.node} restarted; the node is Ready")
    else:
        _exec(sandbox, options.node, options.argv)
    return 0


def _up(options: argparse.Namespace, progress: Progress) -> int:
    sandbox = Sandbox(
        options.state,
        parse_nodes(options.nodes),
        gpus=options.gpus,
        plain=options.plain,
        port=options.port,
        name=options.name,
        progress=progress,
    )
    sandbox.up()
    here = sandbox.kubeconfig.is_relative_to(Path.cwd())
    path = sandbox.kubeconfig.relative_to(Path.cwd()) if here else sandbox.kubeconfig
    progress.say(f"up: export KUBECONFIG={path}")
    return 0


def _down(sandbox: Sandbox) -> int:
    if os.geteuid() != 0:
        raise SandboxError("Removing a sandbox needs root, as starting it did.")
    ended = sandbox.down()
    sandbox.progress.say(f"removed, {ended} processes ended" if ended else "removed; nothing was running")
    return 0


def _status(sandbox: Sandbox) -> int:
    status = sandbox.status()
    if status.record is None:
        print("not up" + ("; leftovers of an incomplete start, which `down` removes" if status.leftovers else ""))
        return _NOT_UP
    record = status.record
    print(f"{'up' if status.up else 'broken'}: {record.versions}; https://{record.plan.host}:{record.ports.api}")
    print(f"kubeconfig: {sandbox.kubeconfig}")
    for node in record.spec.nodes:
        ready = "Ready" if status.nodes[node.name] else "not Ready"
        print(f"node {node.name} ({node.machine}, {record.plan.node(node.index)}): {ready}")
    for process in status.processes:
        state = f"pid {process.pid}, {resident_kib(process) / 1024:.0f} MiB" if alive(process) else "ended"
        print(f"  {process.name:<26} {state:<20} {process.log}")
    for name in sorted(set(status.dead) - {process.name for process in status.processes}):
        print(f"  {name:<26} not running")
    return 0 if status.up else _NOT_UP


def _exec(sandbox: Sandbox, name: str, argv: list[str]) -> NoReturn:
    command = argv[1:] if argv[:1] == ["--"] else argv
    words = [*sandbox.node(name).enter(), *(command or ["sh"])]
    try:
        os.execvpe(words[0], words, environment() | {"TERM": os.environ.get("TERM", "dumb")})
    except FileNotFoundError:
        raise SandboxError(f"The program nsenter is missing. {INSTALL}") from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # the clean-up is not to be interrupted
    raise _Interrupted


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a count")
    return int(text)


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a TCP port (1 to 65535)")
    return int(text)
