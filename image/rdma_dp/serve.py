# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma-dp serve``: checks what it was given, runs the plugin, and leaves the reason behind when it ends.

Exit codes: 0 after SIGTERM or SIGINT; 1 for a config with mistakes in it, or a defect of ours; 2 for wrong usage, an
unreadable file, or a kubelet directory that is not there. The last ends the plugin, although a missing kubelet.sock
does not: in the container the directory is a mount, so without it no kubelet will ever be seen, and waiting would hide
the mistake.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from rdma_dp import logs, termination

if TYPE_CHECKING:
    from rdma_dp.options import ServeOptions

GOOD, INVALID, UNUSABLE = 0, 1, 2


def run(options: ServeOptions) -> int:
    """Runs until it is told to stop; returns the exit code."""
    # As PID 1 of a container a process without a handler does not see SIGTERM at all, and gRPC takes a moment to load.
    signal.signal(signal.SIGTERM, lambda *_unused: sys.exit(GOOD))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the config is about to be read anyway
    logs.setup(options.log_format, options.log_level)
    problem = _wrong_usage(options)
    if problem:
        return _end(UNUSABLE, problem)
    import asyncio

    try:
        return asyncio.run(_serve(options))
    except Exception as error:  # noqa: BLE001 - the last stop: whatever it is must be found in the pod's status
        logs.Log().crash("the plugin failed; please report this", error)
        termination.write(f"The plugin failed: {error!r}. The log of the container has more.")
        return INVALID


async def _serve(options: ServeOptions) -> int:
    import asyncio

    from rdma_dp.machine import machine
    from rdma_dp.plugin import Plugin
    from rdma_dp.sockets import SocketPathError
    from rdma_dp.source import ConfigError
    from rdma_dp.version import VERSION
    from rdma_dp.web import ListenError

    log = logs.Log()
    try:
        plugin = Plugin(options, machine(options), log)
    except ConfigError as error:
        error.tell(log)
        termination.write("\n".join([f"The config {options.config} can't be used:", *error.problems]))
        return UNUSABLE if error.unreadable else INVALID
    except (SocketPathError, ListenError) as error:
        return _end(UNUSABLE, str(error))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, plugin.reload)
    log.info("started", version=VERSION, config=options.config, kubelet_dir=options.kubelet_dir)
    for warning in _not_yet(options):
        log.warning(warning)
    await plugin.run(stop)
    log.info("stopped, sockets removed")
    return GOOD


def _wrong_usage(options: ServeOptions) -> str:
    """The first thing that makes it pointless to start, or ""."""
    if not os.path.isdir(options.kubelet_dir):
        return (
            f"--kubelet-dir {options.kubelet_dir}: there is no such directory; kubelet's is always "
            "/var/lib/kubelet/device-plugins, whatever its --root-dir: mount that into the container"
        )
    if not os.path.isdir(options.sysfs):
        return f"--sysfs {options.sysfs}: there is no such directory; mount the host's /sys there, read-only"
    if not os.path.isdir(options.dev):
        return f"--dev {options.dev}: there is no such directory; it is the one that holds infiniband/"
    return ""


def _not_yet(options: ServeOptions) -> list[str]:
    """What was asked for and this version does not do: said, not ignored."""
    warnings = []
    if options.pod_resources:
        warnings.append(
            "--pod-resources is not used by this version: a mode switch is not guarded by the plugin itself"
        )
    if options.cdi_dir:
        warnings.append("--cdi-dir is not used by this version: device nodes are handed out directly, without CDI")
    return warnings


def _end(code: int, reason: str) -> int:
    """Says the reason where it will be looked for: in the log, and in the pod's status."""
    logs.Log().error(reason)
    termination.write(reason)
    return code
