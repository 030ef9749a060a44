# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small API server on a loopback socket: lists with pages, selectors, watches, patches; and each way to go wrong.

It holds plain dictionaries, records each request, and answers badly on demand (:meth:`FakeApi.fault`).
"""

from __future__ import annotations

import copy
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[a-z.]+)/v1)(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)
NAMESPACED = ("pods", "events", "daemonsets")


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: list[tuple[str, str]]
    body: Any
    port: int  # of the client: tells connections apart

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Fault:
    """What to do wrong with the next ``times`` requests that ``match``."""

    match: Callable[[Request], bool]
    act: Callable[[Handler], None]
    times: int
    after: bool = False  # do what was asked first, then answer badly


@dataclass
class FakeApi:
    """The server's state. Objects are added with :meth:`add` before or while it runs."""

    objects: dict[str, dict[str, Json]] = field(default_factory=dict)  # plural -> "namespace/name" -> object
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    token: str = ""  # the bearer token that is asked for; "": none is
    version: int = 1000
    history: list[tuple[int, str, str, Json]] = field(default_factory=list)  # version, type, plural, object
    oldest: int = 0  # watches from before it are answered 410
    on_request: Callable[[Request], None] | None = None
    url: str = ""

    def __post_init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.stopping = False

    # --- what tests do with it

    def add(self, plural: str, *objects: Json) -> None:
        """Create objects, or replace those of the same name."""
        for thing in objects:
            with self.changed:
                key = self.key(plural, thing["metadata"].get("namespace"), thing["metadata"]["name"])
                kind = "MODIFIED" if key in self.objects.setdefault(plural, {}) else "ADDED"
                self.store(plural, key, copy.deepcopy(thing), kind)

    def remove(self, plural: str, name: str, namespace: str | None = None) -> None:
        """Delete one object."""
        with self.changed:
            thing = self.objects[plural].pop(self.key(plural, namespace, name))
            self.version += 1
            self.history.append((self.version, "DELETED", plural, thing))
            self.changed.notify_all()

    def get(self, plural: str, name: str, namespace: str | None = None) -> Json:
        """One object as it is now."""
        return self.objects[plural][self.key(plural, namespace, name)]

    def fault(
        self, method: str, path: str, act: Callable[[Handler], None], times: int = 1, after: bool = False
    ) -> None:
        """The next ``times`` requests of ``method`` whose path and query match the pattern go wrong by ``act``."""

        def match(request: Request) -> bool:
            query = "&".join(f"{key}={value}" for key, value in sorted(request.query.items()))
            return request.method == method and re.search(path, f"{request.path}?{query}") is not None

        self.faults.append(Fault(match, act, times, after))

    def count(self, method: str, path: str = "") -> int:
        """How many requests of ``method`` came whose path matches."""
        return sum(request.method == method and re.search(path, request.path) is not None for request in self.requests)

    # --- how it keeps its objects

    @staticmethod
    def key(plural: str, namespace: str | None, name: str) -> str:
        return f"{namespace or 'default'}/{name}" if plural in NAMESPACED else name

    def store(self, plural: str, key: str, thing: Json, kind: str) -> Json:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        self.objects.setdefault(plural, {})[key] = thing
        self.history.append((self.version, kind, plural, copy.deepcopy(thing)))
        self.changed.notify_all()
        return thing


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    api: FakeApi

    def log_message(self, *_arguments: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self.handle_request("GET")

    def do_PATCH(self) -> None:
        self.handle_request("PATCH")

    def handle_request(self, method: str) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(raw) if raw else None
        request = Request(method, parts.path, query, list(self.headers.items()), body, self.client_address[1])
        with self.api.changed:
            self.api.requests.append(request)
            fault = next((item for item in self.api.faults if item.times and item.match(request)), None)
            if fault:
                fault.times -= 1
        if self.api.on_request:
            self.api.on_request(request)
        if fault and not fault.after:
            fault.act(self)
            return
        if self.api.token and request.header("authorization") != [f"Bearer {self.api.token}"]:
            self.status(401, "Unauthorized")
            return
        match = _PATH.fullmatch(parts.path)
        if match is None:
            self.answer(404, b"404 page not found", "text/plain")
        elif method == "PATCH":
            self.patch(match, body, fault)
        elif match["name"]:
            self.read(match)
        elif query.get("watch"):
            self.watch(match, query)
        else:
            self.list(match, query, "PartialObjectMetadata" in (self.headers.get("accept") or ""))

    # --- answers

    def answer(
        self, code: int, body: bytes, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response_only(code)
        for name, value in {
            "content-type": kind,
            "content-length": str(len(body)),
            "date": formatdate(usegmt=True),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, code: int, document: Any) -> None:
        self.answer(code, json.dumps(document).encode())

    def status(self, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(
            {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        ).encode()
        self.answer(code, body, headers=headers)

    # --- requests

    def read(self, match: re.Match[str]) -> None:
        key = self.api.key(match["plural"], match["ns"], match["name"])
        thing = self.api.objects.get(match["plural"], {}).get(key)
        if thing is None:
            self.status(404, f'{match["plural"]} "{match["name"]}" not found')
        else:
            self.json(200, thing)

    def list(self, match: re.Match[str], query: Json, metadata_only: bool) -> None:
        with self.api.changed:
            things = [
                copy.deepcopy(thing)
                for _key, thing in sorted(self.api.objects.get(match["plural"], {}).items())
                if matches(thing, match["ns"], query)
            ]
            version = str(self.api.version)
        if metadata_only:
            things = [{"metadata": thing["metadata"]} for thing in things]
        start = int(query.get("continue") or 0)
        limit = int(query.get("limit") or 0) or len(things)
        page, rest = things[start : start + limit], len(things) - start - limit
        meta: Json = {"resourceVersion": version}
        if rest > 0:
            meta["continue"] = str(start + limit)
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                meta["remainingItemCount"] = rest
        self.json(200, {"kind": "List", "metadata": meta, "items": page})

    def watch(self, match: re.Match[str], query: Json) -> None:
        since = int(query["resourceVersion"])
        if since < self.api.oldest:
            self.status(410, "too old resource version")
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        deadline = time.monotonic() + int(query.get("timeoutSeconds") or 60)
        done = 0
        while not self.api.stopping:
            with self.api.changed:
                todo, done = self.api.history[done:], len(self.api.history)
                if not todo:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    self.api.changed.wait(left)
                    continue
            for version, kind, plural, thing in todo:
                if version > since and plural == match["plural"] and matches(thing, match["ns"], query):
                    self.chunk(json.dumps({"type": kind, "object": thing}).encode() + b"\n")
        self.chunk(b"")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def patch(self, match: re.Match[str], body: Json, fault: Fault | None) -> None:
        with self.api.changed:
            key = self.api.key(match["plural"], match["ns"], match["name"])
            thing = self.api.objects.get(match["plural"], {}).get(key)
            asked = (body.get("metadata") or {}).get("resourceVersion")
            if thing is None:
                answer: tuple[int, Any] = (404, f'{match["plural"]} "{match["name"]}" not found')
            elif asked and asked != thing["metadata"]["resourceVersion"]:
                answer = (
                    409,
                    "the object has been modified; please apply your changes to the latest version and try again",
                )
            else:
                answer = (200, self.api.store(match["plural"], key, merged(thing, body), "MODIFIED"))
        if fault:
            fault.act(self)
        elif answer[0] == 200:
            self.json(200, answer[1])
        else:
            self.status(*answer)


# --- what can go wrong


def status(code: int, message: str = "injected", **headers: str) -> Callable[[Handler], None]:
    """A Status answer; ``retry_after`` becomes the header."""
    return lambda handler: handler.status(
        code, message, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def html(code: int) -> Callable[[Handler], None]:
    """The page of a proxy or a login form."""
    return lambda handler: handler.answer(code, b"<html><body>Please log in</body></html>", "text/html; charset=utf-8")


def drop(handler: Handler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncate(handler: Handler) -> None:
    """Half an answer."""
    handler.send_response_only(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')
    drop(handler)


def drip(seconds: float) -> Callable[[Handler], None]:
    """An answer that never ends and never stalls for ``seconds``."""

    def act(handler: Handler) -> None:
        handler.send_response_only(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "100000")
        handler.end_headers()
        try:
            while not handler.api.stopping:
                handler.wfile.write(b" ")
                time.sleep(seconds)
        except OSError:
            handler.close_connection = True

    return act


def stall(handler: Handler) -> None:
    """No answer at all, with the connection open."""
    with handler.api.changed:
        while not handler.api.stopping:
            handler.api.changed.wait(0.1)
    handler.close_connection = True


# --- selectors and patches, as the real one understands them


def matches(thing: Json, namespace: str | None, query: Json) -> bool:
    """Namespace, labelSelector and fieldSelector of a list."""
    meta = thing["metadata"]
    if namespace and (meta.get("namespace") or "default") != namespace:
        return False
    labels = meta.get("labels") or {}
    requirements = re.split(r",(?![^(]*\))", query.get("labelSelector") or "")
    fields = [part for part in (query.get("fieldSelector") or "").split(",") if part]
    return all(_label(labels, part.strip()) for part in requirements if part.strip()) and all(
        _field(thing, part) for part in fields
    )


def _label(labels: dict[str, str], part: str) -> bool:
    if found := re.fullmatch(r"(\S+) (in|notin) \((.*)\)", part):
        return (labels.get(found[1]) in [value.strip() for value in found[3].split(",")]) == (found[2] == "in")
    if "!=" in part:
        key, value = part.split("!=")
        return labels.get(key) != value
    if "=" in part:
        key, value = re.split("==?", part, maxsplit=1)
        return labels.get(key) == value
    return part[1:] not in labels if part.startswith("!") else part in labels


def _field(thing: Json, part: str) -> bool:
    path, operator, value = re.fullmatch(r"([A-Za-z.]+)(!=|==?)(.*)", part).groups()  # type: ignore[union-attr]
    found: Any = thing
    for name in path.split("."):
        found = (found or {}).get(name)
    return ((found or "") == value) == (operator != "!=")


def merged(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    result = copy.deepcopy(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


@contextmanager
def serve(**state: Any) -> Iterator[FakeApi]:
    """A running server; stopped at the end, with all its connections."""
    api = FakeApi(**state)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"api": api}))
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        with api.changed:
            api.stopping = True
            api.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()
