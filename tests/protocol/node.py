# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node for one test: a simulated machine, kubelet's directory, a config file, and the plugin as a child process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.nics.simulated import Simulated

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = {"resourceName": "hca", "selectors": {"rdmaDevices": ["*"]}}
EXCLUSIVE = {"resourceName": "nic", "mode": "exclusive", "selectors": {"rdmaDevices": ["*"]}}
# Fast enough for tests, and no change of the rules: one look each 100 ms, two to fail, three to recover.
HEALTH = {"pollInterval": 0.1, "failAfter": 2, "recoverAfter": 3}


class Node:
    """Everything is below ``root``: sys, dev, dp (kubelet's directory), config/config.json, plugin.log."""

    def __init__(self, root: Path, machine: Simulated) -> None:
        self.root = root
        self.machine = machine
        self.sysfs = root / "sys"
        self.dev = root / "dev"
        self.kubelet_dir = root / "dp"
        self.config = root / "config" / "config.json"
        self.log = root / "plugin.log"
        for directory in (self.kubelet_dir, self.config.parent):
            directory.mkdir()
        self._process: asyncio.subprocess.Process | None = None
        self.started_at = 0.0

    @classmethod
    def beside(cls, node: Node, name: str) -> Node:
        """A second plugin on the same machine, with its own config and log."""
        other = cls.__new__(cls)
        other.__dict__.update(node.__dict__, _process=None)
        other.config = node.config.with_name(f"{name}.json")
        other.log = node.log.with_name(f"{name}.log")
        return other

    # --- config -------------------------------------------------------------------------------------------------------

    def write_config(self, *pools: dict[str, Any], **top: Any) -> None:
        """The pools as the plugin's config file, put in place in one step."""
        self.write_text(json.dumps({"health": HEALTH, **top, "configList": list(pools)}))

    def write_text(self, text: str) -> None:
        new = self.config.with_suffix(".new")
        new.write_text(text)
        new.rename(self.config)

    # --- process ------------------------------------------------------------------------------------------------------

    async def start(self, *flags: str, wrapper: tuple[str, ...] = ()) -> None:
        """Starts the plugin; it has not registered yet when this returns."""
        self.started_at = time.monotonic()
        command = [
            *wrapper, sys.executable, "-m", "rdma_dp", "serve", "--config", str(self.config),
            "--kubelet-dir", str(self.kubelet_dir), "--sysfs", str(self.sysfs), "--dev", str(self.dev), *flags,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT / "image")},
            )  # fmt: skip

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the plugin was not started"
        return self._process

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, within: float = 5.0) -> int:
        """The exit code."""
        return await asyncio.wait_for(self.process.wait(), within)

    async def stop(self) -> float:
        """SIGTERM; returns the seconds until the process had ended, which must be with code 0."""
        started = time.monotonic()
        self.signal(signal.SIGTERM)
        code = await self.ended()
        assert code == 0, f"exit code {code}"
        return time.monotonic() - started

    async def kill(self) -> None:
        """Whatever became of it, it is gone afterwards."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def sockets(self) -> list[str]:
        """Ours in kubelet's directory."""
        return sorted(path.name for path in self.kubelet_dir.iterdir() if path.name.startswith("rdma-dp-"))

    async def until(self, condition: Callable[[], Any], within: float = 5.0, what: str = "") -> Any:
        """Waits for something that is seen by looking again; returns it."""
        deadline = time.monotonic() + within
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within:g} s: {what or 'the condition'}\n" + "\n".join(self.lines()))
            await asyncio.sleep(0.01)
        return found

    async def until_logged(self, text: str, within: float = 5.0) -> str:
        """The first line of the log with the text."""
        line = await self.until(
            lambda: next((line for line in self.lines() if text in line), None), within, f"the log says {text!r}"
        )
        return str(line)

    async def port(self) -> int:
        """The port of --listen 127.0.0.1:0."""
        await self.until_logged("listening for HTTP")
        found = re.findall(r"listening for HTTP .*port=(\d+)", "\n".join(self.lines()))
        return int(found[-1])  # of the newest process

    async def get(self, page: str) -> tuple[int, str]:
        """Status code and body."""
        url = f"http://127.0.0.1:{await self.port()}{page}"
        return await asyncio.to_thread(_get, url)

    async def metric(self, name: str, **labels: str) -> float | None:
        """The sample's value; None when there is no such series."""
        _unused, text = await self.get("/metrics")
        for line in text.splitlines():
            if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                return float(line.rsplit(" ", 1)[1])
        return None

    async def until_metric(self, value: float, name: str, **labels: str) -> None:
        """Waits for a sample's value."""
        await _until(lambda: self.metric(name, **labels), value)

    async def until_page(self, page: str, code: int) -> None:
        """Waits for a page's status code."""

        async def ask() -> int:
            return (await self.get(page))[0]

        await _until(ask, code)


async def _until(ask: Callable[[], Awaitable[Any]], wanted: Any, within: float = 5.0) -> None:
    deadline = time.monotonic() + within
    while (found := await ask()) != wanted:
        assert time.monotonic() < deadline, f"still {found}, not {wanted}, after {within:g} s"
        await asyncio.sleep(0.02)


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
