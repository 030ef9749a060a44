# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all API modules have in common: a wrong connection is one sentence, and no secret is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plugins import fake_api, objects
from tests.unit.plugins.conftest import RunModule
from tests.unit.plugins.fake_api import FakeApi
from tests.unit.plugins.module_utils.test__auth import kubeconfig

Options = dict[str, Any]
MODULES: list[tuple[str, Options]] = [
    ("allocatable_info", {"nodes": ["a"]}),
    ("mode_gate", {"nodes": ["a"]}),
    ("node_labels", {"nodes": ["a"], "labels": {"x": "y"}}),
    ("rollout", {"name": "rdma-dp-shared"}),
]
every_module = pytest.mark.parametrize(("module", "options"), MODULES, ids=[name for name, _options in MODULES])


@every_module
class TestEveryModule:
    def test_kubeconfig_that_does_not_exist(
        self, run_module: RunModule, tmp_path: Path, module: str, options: Options
    ) -> None:
        result = run_module(module, kubeconfig=f"{tmp_path}/none", **options)
        assert result.failed
        assert result.msg.startswith(f"The kubeconfig {tmp_path}/none does not exist"), "no_log must not hide the path"

    def test_server_that_is_down(self, run_module: RunModule, module: str, options: Options) -> None:
        with fake_api.serve() as other:
            url = other.url
        result = run_module(module, host=url, api_key="test-token", retries=1, **options)
        assert f"{url} can't be reached: [Errno 111] Connection refused" in result.msg

    def test_unknown_credentials(self, api: FakeApi, run_module: RunModule, module: str, options: Options) -> None:
        api.token = "right"
        result = run_module(module, host=api.url, api_key="wrong-token", **options)
        assert "does not accept the credentials" in result.msg
        assert "wrong-token" not in json.dumps(result.values)

    def test_login_page(self, api: FakeApi, run_module: RunModule, module: str, options: Options) -> None:
        api.fault("GET", "", fake_api.html(200), times=9)
        assert "is it the address of a Kubernetes API server" in run_module(module, **options).msg

    def test_server_that_stays_busy(self, api: FakeApi, run_module: RunModule, module: str, options: Options) -> None:
        api.fault("GET", "", fake_api.status(429, "too many requests", retry_after="1"), times=99)
        result = run_module(module, retries=2, **options)
        assert "429 too many requests" in result.msg
        assert len(api.requests) == 3

    @pytest.mark.parametrize("wrong", [{"request_timeout": 0}, {"retries": -1}])
    def test_options_out_of_range(
        self, api: FakeApi, run_module: RunModule, module: str, options: Options, wrong: dict[str, int]
    ) -> None:
        result = run_module(module, **wrong, **options)
        assert next(iter(wrong)) in result.msg
        assert api.requests == []


def test_a_kubeconfig_dictionary_hides_its_secrets_and_nothing_else(api: FakeApi, run_module: RunModule) -> None:
    """With no_log alone "u" and "v1" would be cut out of every text of the result."""
    api.add("nodes", objects.node("v1"), objects.node("u", "shared"))
    config = kubeconfig(api.url, {"token": "top-secret"})
    result = run_module("allocatable_info", kubeconfig=config, label_selectors=["pool=h20"])
    assert [node["name"] for node in result["nodes"]] == ["u", "v1"]
    assert "top-secret" not in json.dumps(result.values)
    assert api.requests[0].header("authorization") == ["Bearer top-secret"]


def test_secrets_from_the_environment_are_hidden_too(
    api: FakeApi, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8S_AUTH_API_KEY", "top-secret")
    api.fault("GET", "", fake_api.status(422, "the token top-secret is odd"), times=9)
    result = run_module("rollout", host=api.url, name="x")
    assert "top-secret" not in json.dumps(result.values)
    assert api.requests[0].header("authorization") == ["Bearer top-secret"]
