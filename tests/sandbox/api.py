# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls to the API server that starting a cluster takes; with the standard library, which loads at once."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sandbox.errors import SandboxError

_GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class ApiClient:
    """Speaks as the cluster's administrator."""

    host: str
    port: int
    pki: Path

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer (JSON where it is JSON, else text).

        :raises OSError: the server can't be reached, or is not who it should be.
        """
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        connection = http.client.HTTPSConnection(self.host, self.port, context=context, timeout=10.0)
        try:
            headers = {"Content-Type": "application/merge-patch+json", "Accept": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except http.client.HTTPException as error:
            raise OSError(f"the API server's answer is no HTTP: {error!r}") from None
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def answers(self, path: str) -> bool:
        """True when a GET of ``path`` is answered with 200."""
        try:
            return self.request("GET", path)[0] == 200
        except OSError:
            return False

    def node(self, name: str) -> dict[str, Any] | None:
        """A Node object; None while there is none or the server does not answer."""
        try:
            status, node = self.request("GET", f"/api/v1/nodes/{name}")
        except OSError:
            return None
        return node if status == 200 else None

    def put_gpus(self, name: str, count: int) -> None:
        """Put ``nvidia.com/gpu`` on the node's status, in the place of NVIDIA's device plugin.

        :raises SandboxError: refused, or the server can't be reached.
        """
        resources = {_GPU: str(count)}
        patch = {"status": {"capacity": resources, "allocatable": resources}}
        try:
            status, answer = self.request("PATCH", f"/api/v1/nodes/{name}/status", patch)
        except OSError as error:
            raise SandboxError(f"The API server at {self.host}:{self.port} can't be reached: {error}") from None
        if status != 200:
            raise SandboxError(f"The API server refused nvidia.com/gpu on the status of {name}: {status} {answer}")


def gpus_of(node: dict[str, Any]) -> tuple[str, str]:
    """``nvidia.com/gpu`` in capacity and allocatable, "" where it is absent."""
    status = node.get("status", {})
    return status.get("capacity", {}).get(_GPU, ""), status.get("allocatable", {}).get(_GPU, "")


def last_report(node: dict[str, Any] | None) -> str:
    """When kubelet last said whether the node is Ready (RFC 3339, UTC, whole seconds); "" when it never did."""
    return str(_ready_condition(node).get("lastHeartbeatTime", ""))


def ready(node: dict[str, Any] | None, not_before: str = "") -> bool:
    """True when kubelet says so, in a report not older than ``not_before`` (a time as :func:`last_report` gives it)."""
    return _ready_condition(node).get("status") == "True" and last_report(node) >= not_before


def schedulable(node: dict[str, Any] | None) -> bool:
    """True when the controllers have taken note that it is Ready: their own taints are off."""
    taints = (node or {}).get("spec", {}).get("taints", [])
    return node is not None and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)


def _ready_condition(node: dict[str, Any] | None) -> dict[str, Any]:
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})
