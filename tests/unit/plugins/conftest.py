# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake API server, and modules run as Ansible runs them, in this process."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.lingjun.rdma.plugins.module_utils import _auth, _client

from tests.unit.plugins import fake_api


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No connection option of the machine's user reaches a test."""
    for variables in _auth.ENVIRONMENT.values():
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(variable, raising=False)
    for variable in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def api() -> Iterator[fake_api.FakeApi]:
    """A running fake API server without objects."""
    with fake_api.serve() as server:
        yield server


@dataclass
class Time:
    """A clock that moves only when somebody sleeps on it."""

    now: float = 0.0
    slept: list[float] | None = None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept = [*(self.slept or []), seconds]
        self.now += seconds


@pytest.fixture
def timing() -> Time:
    """For a client that must not really sleep."""
    return Time()


@dataclass(frozen=True)
class Result:
    """How a module ended."""

    failed: bool
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def msg(self) -> str:
        return str(self.values["msg"])


RunModule = Callable[..., Result]


@pytest.fixture
def run_module(api: fake_api.FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunModule:
    """``run_module("node_labels", nodes=[...], ...)`` against the fake server; sleeps are a hundred times shorter."""
    real = _client.Client.__init__

    def hurried(self: _client.Client, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        pause = self.sleep
        self.sleep = lambda seconds: pause(seconds / 100)

    monkeypatch.setattr(_client.Client, "__init__", hurried)

    def run(name: str, /, *, check_mode: bool = False, diff: bool = False, **options: Any) -> Result:
        module = importlib.import_module(f"ansible_collections.lingjun.rdma.plugins.modules.{name}")
        connection = (
            {}
            if {"host", "kubeconfig", "context"} & set(options)
            else {"host": api.url, "api_key": api.token or "test-token"}
        )
        arguments = {**connection, "_ansible_check_mode": check_mode, "_ansible_diff": diff, **options}
        capsys.readouterr()
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            module.main()
        printed = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
        assert bool(ended.value.code) == bool(printed.get("failed"))
        return Result(bool(printed.get("failed")), printed)

    return run
