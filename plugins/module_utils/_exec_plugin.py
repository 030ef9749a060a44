# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exec credential plugins of a kubeconfig user, with an end. Private to this collection.

The kubernetes library waits for a plugin for ever and turns its failure into a log line and no credentials; so we run
it. Protocol: client.authentication.k8s.io/v1 and v1beta1, ExecCredential.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from typing import Any, Dict, Mapping, Optional

from ansible_collections.lingjun.rdma.plugins.module_utils._errors import ConnectionOptionsError


def credentials(
    spec: Mapping[str, Any], cluster: Optional[Mapping[str, Any]], timeout: float, run: Any = subprocess.run
) -> Dict[str, Any]:
    """Run the plugin once, for at most ``timeout`` seconds; returns a kubeconfig user with what it printed.

    The plugin gets no terminal and no input: one that asks for something ends at once or at the timeout.
    Raises ConnectionOptionsError naming the command and its last line of stderr.
    """
    command = str(spec.get("command") or "")
    if not command or not spec.get("apiVersion"):
        raise ConnectionOptionsError("The kubeconfig's exec plugin needs a command and an apiVersion.")
    name = f"The kubeconfig's exec plugin {command}"
    try:
        done = run(
            [command, *[str(argument) for argument in spec.get("args") or []]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env=_environment(spec, cluster),
            check=False,
        )
    except FileNotFoundError as error:
        hint = " ".join(str(spec.get("installHint") or "").split())
        raise ConnectionOptionsError(
            f"{name} is not installed on the host that runs the module. {hint}".rstrip()
        ) from error
    except OSError as error:
        raise ConnectionOptionsError(f"{name} can't be run: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise ConnectionOptionsError(
            f"{name} did not end within {timeout:g} s; it may wait for input: log in with it by hand first, or raise"
            " request_timeout."
        ) from error
    if done.returncode:
        raise ConnectionOptionsError(f"{name} failed with exit code {done.returncode}: {_last_line(done.stderr)}")
    return _user(done.stdout, name)


def _environment(spec: Mapping[str, Any], cluster: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    info: Dict[str, Any] = {"apiVersion": spec["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    if spec.get("provideClusterInfo") and cluster:
        info["spec"]["cluster"] = _cluster_info(cluster)
    added = {str(item.get("name")): str(item.get("value")) for item in spec.get("env") or []}
    return {**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _cluster_info(cluster: Mapping[str, Any]) -> Dict[str, Any]:
    info = {
        key: cluster[key]
        for key in ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        if key in cluster
    }
    for extension in cluster.get("extensions") or []:
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _user(output: bytes, name: str) -> Dict[str, Any]:
    try:
        status = json.loads(output)["status"]
        token, certificate, key = (status.get(field) for field in ("token", "clientCertificateData", "clientKeyData"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConnectionOptionsError(f"{name} printed no ExecCredential with a status.") from error
    user: Dict[str, Any] = {}
    if token:
        user["token"] = str(token)
    if certificate and key:
        user["client-certificate-data"] = base64.b64encode(str(certificate).encode()).decode()
        user["client-key-data"] = base64.b64encode(str(key).encode()).decode()
    if not user:
        raise ConnectionOptionsError(f"{name} printed neither a token nor a client certificate with its key.")
    return user


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing on stderr"
