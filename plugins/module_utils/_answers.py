# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an answer of the API server means: which failure, and whether trying again helps. Private to this collection."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from ansible_collections.lingjun.rdma.plugins.module_utils._errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Problem,
    Unauthorized,
    Unreachable,
)

RETRYABLE = (429, 500, 502, 503, 504)
LONGEST_PAUSE = 10.0  # s; a server may ask for an hour, nobody at a keyboard waits that long


@dataclass(frozen=True)
class Resource:
    """A kind of object, as URLs and RBAC rules name it."""

    root: str  # "/api/v1", "/apis/apps/v1"
    plural: str
    group: str = ""

    def path(self, namespace: Optional[str] = None, name: Optional[str] = None) -> str:
        """The URL's path of one object, or of a list (of all namespaces without ``namespace``)."""
        parts = [self.root, *(["namespaces", namespace] if namespace else []), self.plural, *([name] if name else [])]
        return "/".join(parts)


NODES = Resource("/api/v1", "nodes")
PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
DAEMON_SETS = Resource("/apis/apps/v1", "daemonsets", "apps")


@dataclass(frozen=True)
class Action:
    """What a request is for, in RBAC's words."""

    verb: str
    resource: Resource
    namespace: Optional[str] = None
    name: Optional[str] = None

    def __str__(self) -> str:
        """``list pods in kube-system``, ``patch nodes node-a``."""
        words = [self.verb, self.resource.plural, *([self.name] if self.name else [])]
        return " ".join(words) + (f" in namespace {self.namespace}" if self.namespace else "")


class Retryable(Exception):
    """This attempt failed in a way that may pass; ``problem`` is what to raise when it does not."""

    def __init__(self, problem: Problem, pause: Optional[float] = None) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.pause = pause  # s, as the server asked for; None: it did not


def judge(status: int, headers: Mapping[str, str], body: bytes, action: Action, server: str) -> Any:
    """The parsed JSON of a good answer.

    Raises an :class:`ApiError` for a bad one, or :class:`Retryable` around it when a later attempt may do better.
    """
    if 200 <= status < 300:
        try:
            return json.loads(body)
        except ValueError as error:
            if "json" in headers.get("content-type", ""):
                raise Retryable(Unreachable(f"{server} sent a damaged answer to '{action}'.")) from error
            raise ApiError(
                f"{server} answered '{action}' with {_kind(headers)} instead of JSON; is it the address of a Kubernetes"
                " API server, with no login page or proxy in between?",
                status,
            ) from error
    said = _said(body, headers)
    if status in RETRYABLE:
        raise Retryable(ApiError(f"{server} could not do '{action}': {status} {said}", status), _pause(headers))
    raise _error(status, said, _is_status(body), action, server)


def _error(status: int, said: str, from_kubernetes: bool, action: Action, server: str) -> ApiError:
    if status == 401:
        return Unauthorized(
            f"{server} does not accept the credentials (401 {said}); check the token, client certificate or exec plugin"
            " of the kubeconfig.",
            status,
        )
    if status == 403:
        if not from_kubernetes:
            return Forbidden(
                f"{server} refused '{action}' with 403 {said}; that is not Kubernetes' answer, so look for a proxy.",
                status,
            )
        kind, role = ("Role", f" in namespace {action.namespace}") if action.namespace else ("ClusterRole", "")
        group = f"{action.resource.plural}.{action.resource.group}" if action.resource.group else action.resource.plural
        return Forbidden(
            f"The account may not {action}; give it a {kind}{role} with the verb {action.verb} on {group}. {server}"
            f" says: {said}",
            status,
        )
    if status == 404:
        if not from_kubernetes:
            return NotFound(
                f"{server} does not know the path of '{action}'; is it the address of a Kubernetes API server?", status
            )
        return NotFound(f"{server} can't {action}: {said}", status)
    if status == 409:
        return Conflict(f"{server} can't {action}: {said}", status)
    if status == 410:
        return Expired(f"{server} can't go on with '{action}': {said}", status)
    return ApiError(f"{server} can't {action}: {status} {said}", status)


def _is_status(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == "Status"


def _said(body: bytes, headers: Mapping[str, str]) -> str:
    """The server's own sentence, on one line."""
    if _is_status(body):
        text = str(json.loads(body).get("message") or json.loads(body).get("reason") or "")
    elif "html" in headers.get("content-type", ""):
        text = "(an HTML page)"
    else:
        text = body[:300].decode(errors="replace")
    return " ".join(text.split())


def _kind(headers: Mapping[str, str]) -> str:
    kind = headers.get("content-type", "").split(";")[0].strip()
    return {"text/html": "an HTML page", "": "something"}.get(kind, kind)


def _pause(headers: Mapping[str, str]) -> Optional[float]:
    text = headers.get("retry-after", "").strip()
    return min(float(text), LONGEST_PAUSE) if text.isdigit() else None
