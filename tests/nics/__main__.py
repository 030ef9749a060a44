# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.nics``: build a simulated machine, change it, list what there is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import build, load, machine, names


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 with a sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.nics", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="machines, with their RDMA devices")
    add = commands.add_parser("build", help="write a machine's /sys and /dev")
    add.add_argument("machine", help="a name that `list` prints, or a file")
    add.add_argument("directory", type=Path)
    add.add_argument("--openable", action="store_true", help="device nodes that any pod can open")
    for name, text in (
        ("remove-nic", "take a NIC away"),
        ("restore-nic", "bring it back"),
        ("set-port", "change a port's state"),
    ):
        change = commands.add_parser(name, help=text)
        change.add_argument("directory", type=Path)
        change.add_argument("rdma_device")
        if name == "set-port":
            change.add_argument("port", type=int)
            change.add_argument("state")
    reload = commands.add_parser("reload-driver", help="give the character devices other numbers")
    reload.add_argument("directory", type=Path)
    try:
        _run(parser.parse_args(arguments))
    except (OSError, ValueError, KeyError) as error:
        print(f"tests.nics: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    if options.command == "list":
        for name in names():
            print(f"{name:40} {' '.join(device.name for device in machine(name).rdma_devices)}")
    elif options.command == "build":
        build(options.machine, options.directory, options.openable)
    elif options.command == "remove-nic":
        load(options.directory).remove_nic(options.rdma_device)
    elif options.command == "restore-nic":
        load(options.directory).restore_nic(options.rdma_device)
    elif options.command == "set-port":
        load(options.directory).set_port(options.rdma_device, options.port, options.state)
    elif options.command == "reload-driver":
        load(options.directory).reload_driver()


if __name__ == "__main__":
    sys.exit(main())
