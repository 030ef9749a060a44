# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: flags, exit codes, and where things are printed. Each subcommand loads only what it needs.

Exit codes: 0 good; 1 the answer is no (an invalid config); 2 wrong usage or unreadable input. Results go to stdout,
messages to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from rdma_dp.commands import GOOD, NO, UNUSABLE, Answer, UsageError
from rdma_dp.version import VERSION

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns the exit code."""
    try:
        options = _parser().parse_args(argv)
        if options.command == "serve":
            return _serve(options)
        answer = _answer(options)
    except SystemExit as stop:  # argparse has said what was to be said
        _write(sys.stdout, "")
        return stop.code if isinstance(stop.code, int) else UNUSABLE
    except UsageError as error:
        return _end(UNUSABLE, str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED
    for message in answer.messages:
        _say(message)
    try:
        _print(answer.result)
    except OSError as error:
        return _end(UNUSABLE, f"the result can't be written: {error.strerror}")
    return answer.code


def _serve(options: argparse.Namespace) -> int:
    from rdma_dp.options import ServeOptions
    from rdma_dp.serve import run

    return run(
        ServeOptions(
            config=options.config,
            kubelet_dir=options.kubelet_dir,
            sysfs=options.sysfs,
            dev=options.dev,
            host_dev=options.host_dev or options.dev,
            pod_resources=options.pod_resources,
            cdi_dir=options.cdi_dir,
            listen=options.listen,
            log_format=options.log_format,
            log_level=options.log_level,
        )
    )


def _answer(options: argparse.Namespace) -> Answer:
    if options.command == "version":
        return Answer(GOOD, f"rdma-dp {VERSION}\n")

    from rdma_dp.config_file import ConfigUnreadable
    from rdma_dp.core.problems import ConfigInvalid

    try:
        if options.command == "validate":
            from rdma_dp.commands import validate

            return validate.run(options.config, options.format)
        from rdma_dp.commands import discover

        return discover.run(options.config, options.sysfs, options.dev, options.format, _colours())
    except ConfigUnreadable as error:
        raise UsageError(f"--config {options.config}: {error}") from None
    except ConfigInvalid as error:
        return Answer(NO, "", tuple(f"{options.config}: {problem}" for problem in error.problems))


# --- flags ----------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one line, and no flag may be abbreviated: what works today must not change its meaning."""

    def __init__(self, **settings: object) -> None:
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        _say(f"{message}; see {self.prog} --help")
        raise SystemExit(UNUSABLE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="rdma-dp", description="Kubernetes device plugin for RDMA NICs.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)

    serve = commands.add_parser("serve", help="run the device plugin", description="Run the device plugin.")
    _config(serve, required=True)
    _directory(serve, "--kubelet-dir", "/var/lib/kubelet/device-plugins", "where kubelet.sock is")
    _machine(serve)
    serve.add_argument(
        "--host-dev", type=_path, metavar="DIR", help="what --dev is called on the host, if not the same"
    )
    serve.add_argument("--pod-resources", type=_path, metavar="SOCKET", help="kubelet's PodResources socket")
    serve.add_argument("--cdi-dir", type=_path, metavar="DIR", help="where CDI files are written")
    serve.add_argument("--listen", type=_listen, metavar="HOST:PORT", help="serve metrics and probes over HTTP there")
    serve.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how log lines are written (default: text)"
    )
    levels = ("debug", "info", "warning", "error")
    text = "what is worth a line (default: info)"
    serve.add_argument("--log-level", type=str.lower, choices=levels, default="info", help=text)

    text = "Check the config and print it with all defaults."
    validate = commands.add_parser("validate", help="check a config", description=text)
    _config(validate, required=True)
    validate.add_argument("--format", choices=("text", "json"), default="text", help="default: text")

    text = "List the machine's RDMA NICs and, with a config, the pools that take them."
    discover = commands.add_parser("discover", help="list the NICs", description=text)
    _config(discover, required=False)
    _machine(discover)
    discover.add_argument("--format", choices=("table", "json"), default="table", help="default: table")

    commands.add_parser("version", help="print the version", description="Print the version.")
    return parser


def _config(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--config", type=_path, required=required, metavar="FILE", help="the pools, as YAML or JSON")


def _machine(parser: argparse.ArgumentParser) -> None:
    _directory(parser, "--sysfs", "/sys", "the host's /sys")
    _directory(parser, "--dev", "/dev", "the directory that holds infiniband/")


def _directory(parser: argparse.ArgumentParser, flag: str, default: str, text: str) -> None:
    parser.add_argument(flag, type=_path, default=Path(default), metavar="DIR", help=f"{text} (default: {default})")


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def _listen(text: str) -> tuple[str, int]:
    """``0.0.0.0:9400``, ``[::]:9400``; without a host, all IPv4 addresses."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT with a port up to 65535")
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise argparse.ArgumentTypeError(f"{text!r}: put an IPv6 address in brackets, as in [::]:9400")
    return (host[1:-1] if bracketed else host) or "0.0.0.0", int(port)


# --- output ---------------------------------------------------------------------------------------------------------


def _colours() -> bool:
    """Only for a person at a terminal that can do it (https://no-color.org)."""
    return (
        sys.stdout is not None
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _end(code: int, message: str) -> int:
    _say(message)
    return code


def _say(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody is left to be told
        print(f"rdma-dp: {message}", file=sys.stderr)


def _print(text: str) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    _write(sys.stdout, text)


def _write(stream: TextIO | None, text: str) -> None:
    """A reader that has seen enough (``| head``) is no error, here and when Python flushes again at its end."""
    if stream is None:  # closed before we were started
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
