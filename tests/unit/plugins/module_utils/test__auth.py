# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where connection options come from, and each way in which they can be wrong."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.lingjun.rdma.plugins.module_utils import _auth, _exec_plugin, _module
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import NODES
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import ConnectionOptionsError

from tests.unit.plugins.fake_api import FakeApi


def kubeconfig(url: str, user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A kubeconfig with one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user or {"token": "from-kubeconfig"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **more,
    }


def write(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def headers(environ: dict[str, str] | None = None, **params: Any) -> dict[str, str]:
    return dict(_auth.connect(_auth.resolve(params, environ or {}), 5).headers())


def refusal(environ: dict[str, str] | None = None, **params: Any) -> str:
    with pytest.raises(ConnectionOptionsError) as caught:
        _auth.connect(_auth.resolve(params, environ or {}), 2)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


class TestSources:
    def test_path(self, tmp_path: Path) -> None:
        path = write(tmp_path / "config", kubeconfig("https://one:6443/"))
        session = _auth.connect(_auth.resolve({"kubeconfig": str(path)}, {}), 5)
        assert session.url == "https://one:6443"
        assert session.headers() == [("authorization", "Bearer from-kubeconfig")]
        assert not session.renewable

    def test_dictionary(self) -> None:
        assert headers(kubeconfig=kubeconfig("https://one")) == {"authorization": "Bearer from-kubeconfig"}

    def test_environment_of_kubernetes_core(self, tmp_path: Path) -> None:
        path = write(tmp_path / "config", kubeconfig("https://one"))
        assert headers({"K8S_AUTH_KUBECONFIG": str(path)}) == {"authorization": "Bearer from-kubeconfig"}
        assert headers({"K8S_AUTH_HOST": "https://two", "K8S_AUTH_API_KEY": "t"}) == {"authorization": "Bearer t"}

    def test_the_option_counts_more_than_the_environment(self) -> None:
        assert headers({"K8S_AUTH_API_KEY": "t"}, host="https://two", api_key="u") == {"authorization": "Bearer u"}

    def test_the_users_default_kubeconfig(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "config", kubeconfig("https://one"))
        monkeypatch.setenv("KUBECONFIG", str(path))
        assert headers() == {"authorization": "Bearer from-kubeconfig"}

    def test_several_files_are_merged(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", kubeconfig("https://one"))
        second = write(
            tmp_path / "b",
            kubeconfig(
                "https://other", {"token": "other"}, contexts=[{"name": "y", "context": {"cluster": "c", "user": "u"}}]
            ),
        )
        paths = os.pathsep.join([str(first), str(second), str(tmp_path / "missing")])
        session = _auth.connect(_auth.resolve({"kubeconfig": paths, "context": "y"}, {}), 5)
        assert session.url == "https://one", "of two entries of one name the first counts"

    def test_paths_in_the_file_are_relative_to_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "token").write_text("from-file")
        path = write(tmp_path / "config", kubeconfig("https://one", {"tokenFile": "token"}))
        monkeypatch.chdir("/")
        assert headers(kubeconfig=str(path)) == {"authorization": "Bearer from-file"}

    @pytest.mark.parametrize(
        ("text", "verify"),
        [("false", False), ("0", False), ("no", False), ("False", False), ("true", True), ("1", True)],
    )
    def test_booleans_in_the_environment(self, text: str, verify: bool) -> None:
        for variable in ("K8S_AUTH_VERIFY_SSL", "K8S_AUTH_VALIDATE_CERTS"):
            assert _auth.resolve({}, {variable: text})["validate_certs"] is verify

    def test_groups_in_the_environment(self) -> None:
        assert _auth.resolve({}, {"K8S_AUTH_IMPERSONATE_GROUPS": "a,b"})["impersonate_groups"] == ["a", "b"]

    def test_options_are_those_of_kubernetes_core(self) -> None:
        """Also its documentation fragment is used; this holds names, types and aliases together."""
        args_common = pytest.importorskip("ansible_collections.kubernetes.core.plugins.module_utils.args_common")
        ours = _module.common_options()
        for name, spec in args_common.AUTH_ARG_SPEC.items():
            assert ours[name].get("type", "str") == spec.get("type", "str"), name
            assert ours[name].get("aliases", []) == spec.get("aliases", []), name
            assert bool(ours[name].get("no_log")) == bool(spec.get("no_log")), name


class TestMistakes:
    def test_missing_file(self, tmp_path: Path) -> None:
        assert f"{tmp_path}/none does not exist" in refusal(kubeconfig=f"{tmp_path}/none")

    def test_nothing_given_and_no_default(self, tmp_path: Path) -> None:
        assert f"{tmp_path}/.kube/config does not exist; set the option kubeconfig" in refusal()

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("clusters: [unclosed", "is no YAML, line 1"),
            ("", "holds no kubeconfig"),
            ("just a text", "holds no kubeconfig"),
            ("[1, 2]", "holds no kubeconfig"),
            ("clusters: 5", "clusters must be a list"),
            ("users: [{user: {}}]", "users must be a list of entries with a name and a user"),
            ("contexts: [{name: x, context: text}]", "contexts must be a list"),
            ("a: !!python/object:os.system {}", "is no YAML"),
        ],
    )
    def test_malformed_file(self, tmp_path: Path, content: str, words: str) -> None:
        path = write(tmp_path / "config", content)
        message = refusal(kubeconfig=str(path))
        assert words in message
        assert str(path) in message

    def test_binary_file(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_bytes(b"\xff\xfe\x00")
        assert "no text file" in refusal(kubeconfig=str(tmp_path / "config"))

    def test_directory(self, tmp_path: Path) -> None:
        assert "can't be read: Is a directory" in refusal(kubeconfig=str(tmp_path))

    def test_unknown_context_lists_those_there_are(self, tmp_path: Path) -> None:
        path = write(tmp_path / "config", kubeconfig("https://one"))
        assert "has no context 'y'; it has 'x'" in refusal(kubeconfig=str(path), context="y")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"current-context": ""}, "no current-context; set the option context to 'x'"),
            ({"clusters": []}, "names the cluster 'c'; there is none"),
            ({"clusters": [{"name": "c", "cluster": {}}]}, "cluster 'c' has no server"),
            ({"users": []}, "names the user 'u'; there is none"),
            (
                {"users": [{"name": "u", "user": {"client-certificate": "none.pem"}}]},
                "client-certificate none.pem can't be read",
            ),
            ({"users": [{"name": "u", "user": {"exec": {"command": "x"}}}]}, "needs a command and an apiVersion"),
        ],
    )
    def test_dangling_names(self, change: dict[str, Any], words: str) -> None:
        assert words in refusal(kubeconfig={**kubeconfig("https://one"), **change})

    def test_certificate_that_is_no_base64(self) -> None:
        broken = kubeconfig("https://one", {"client-certificate-data": "%%%", "client-key-data": "x"})
        assert "credentials can't be loaded" in refusal(kubeconfig=broken)

    @pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
    def test_file_options(self, option: str) -> None:
        assert f"The option {option} names /none" in refusal(host="https://one", api_key="t", **{option: "/none"})

    @pytest.mark.parametrize(
        "url", ["one:6443", "http://", "https://[::1", "https://a b", "ftp://one", "https://one:port"]
    )
    def test_what_is_no_url(self, url: str) -> None:
        assert "write a URL like https://" in refusal(host=url, api_key="t")
        assert "write a URL like https://" in refusal(kubeconfig=kubeconfig(url))

    def test_missing_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "kubernetes", None)
        assert "pip install kubernetes" in refusal(host="https://one", api_key="t")


class TestExecPlugins:
    def plugin(self, tmp_path: Path, script: str, **more: Any) -> dict[str, Any]:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), **more}
        return kubeconfig("https://one", {"exec": spec})

    def test_token(self, tmp_path: Path) -> None:
        script = """printf '{"status": {"token": "%s"}}' "$WHO-$1" """
        config = self.plugin(tmp_path, script, args=["arg"], env=[{"name": "WHO", "value": "me"}])
        assert headers(kubeconfig=config) == {"authorization": "Bearer me-arg"}

    def test_client_certificate(self) -> None:
        status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
        user = _exec_plugin._user(json.dumps({"status": status}).encode(), "it")
        assert base64.b64decode(user["client-certificate-data"]) == b"CERT"
        assert base64.b64decode(user["client-key-data"]) == b"KEY"

    def test_not_installed(self) -> None:
        spec = {"apiVersion": "v1", "command": "no-such-plugin", "installHint": "Get it from\n  your admin."}
        message = refusal(kubeconfig=kubeconfig("https://one", {"exec": spec}))
        assert "no-such-plugin is not installed" in message
        assert "Get it from your admin." in message

    def test_failing(self, tmp_path: Path) -> None:
        message = refusal(kubeconfig=self.plugin(tmp_path, "echo noise >&2; echo you must log in >&2; exit 3"))
        assert "failed with exit code 3: you must log in" in message

    def test_waiting_for_ever(self, tmp_path: Path) -> None:
        assert "did not end within 2 s; it may wait for input" in refusal(
            kubeconfig=self.plugin(tmp_path, "exec sleep 60")
        )

    def test_asking_for_input_gets_none(self, tmp_path: Path) -> None:
        assert "exit code 1" in refusal(kubeconfig=self.plugin(tmp_path, "read answer"))

    @pytest.mark.parametrize(
        "output", ["", "text", "[]", "{}", '{"status": {}}', '{"status": {"clientCertificateData": "x"}}']
    )
    def test_useless_output(self, tmp_path: Path, output: str) -> None:
        assert "printed" in refusal(kubeconfig=self.plugin(tmp_path, f"echo '{output}'"))

    def test_run_again_after_a_401(self, tmp_path: Path, api: FakeApi) -> None:
        """Tokens expire during a long wait."""
        script = f"""n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n
        printf '{{"status": {{"token": "token-%s"}}}}' "$n" """
        config = self.plugin(tmp_path, script)
        config["clusters"][0]["cluster"]["server"] = api.url
        options = _auth.resolve({"kubeconfig": config}, {})
        api.token = "token-0"
        client = Client(lambda: _auth.connect(options, 5), request_timeout=5, retries=0)
        client.list(NODES, dict)
        api.token = "token-1"
        client.list(NODES, dict)
        assert [request.header("authorization")[0] for request in api.requests] == [
            "Bearer token-0",
            "Bearer token-0",
            "Bearer token-1",
        ]


def test_secrets_are_all_but_names_and_addresses() -> None:
    config = kubeconfig(
        "https://one", {"token": "t", "exec": {"command": "c", "args": ["a"], "env": [{"name": "N", "value": "v"}]}}
    )
    assert sorted(_auth.secrets(config)) == ["a", "t", "v"]
