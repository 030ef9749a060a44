# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP side: /healthz, /readyz, /metrics, /status. In a thread of its own, so that it can tell that the loop hangs.

Small on purpose: GET only, a bounded number of connections, each with a deadline.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rdma_dp.logs import Log
from rdma_dp.version import VERSION

_CONNECTIONS = 16
_CONNECTION_TIMEOUT = 5.0  # s for a client to say what it wants, and to take the answer
_LOOP_TIMEOUT = 0.9  # s for the event loop to answer; kubelet gives a probe 1 s unless told otherwise
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"


class ListenError(Exception):
    """The address can't be listened on; the text says why."""


@dataclass(frozen=True)
class Pages:
    """What is behind the paths. ``health`` and ``ready`` yield the problem, or "" when there is none."""

    health: Callable[[], Awaitable[str]]  # run on the loop
    ready: Callable[[], Awaitable[str]]
    status: Callable[[], Awaitable[dict[str, Any]]]
    metrics: Callable[[], bytes]  # run in the HTTP thread


class WebServer:
    """Serves from :meth:`start` to :meth:`stop`."""

    def __init__(self, listen: tuple[str, int], pages: Pages, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        """Binds the address: a host's name or IP address, and a port (0: any free one). Raises ListenError."""
        host, port = listen
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, *_unused, address = found[0]
            self._server = _Server(family, address, pages, loop)
        except OSError as error:
            raise ListenError(f"--listen {host}:{port}: cannot listen there: {error.strerror or error}") from error
        self._log = log

    @property
    def port(self) -> int:
        """The port; another one than asked for when that was 0."""
        return int(self._server.socket.getsockname()[1])

    def start(self) -> None:
        """Begins to answer."""
        threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True).start()
        self._log.info("listening for HTTP", address=self._server.server_address[0], port=self.port)

    def stop(self) -> None:
        """Closes the listener; takes up to 0.2 s."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, family: int, address: Any, pages: Pages, loop: asyncio.AbstractEventLoop) -> None:
        self.address_family = family
        self.pages = pages
        self.loop = loop
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's: that asks the resolver for our own name, which may take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)  # too many already: better one refused than all slow

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away midway; nobody needs to know."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = f"rdma-dp/{VERSION}"
    sys_version = ""
    timeout = _CONNECTION_TIMEOUT

    def do_GET(self) -> None:
        pages = self.server.pages
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._verdict(pages.health, bad=500)
        elif path == "/readyz":
            self._verdict(pages.ready, bad=503)
        elif path == "/metrics":
            self._answer(200, _METRICS, pages.metrics())
        elif path == "/status":
            status = self._on_loop(pages.status)
            if isinstance(status, str):
                self._answer(500, _TEXT, status.encode() + b"\n")
            else:
                self._answer(200, _JSON, json.dumps(status, indent=2).encode() + b"\n")
        else:
            self._answer(404, _TEXT, b"there are /healthz, /readyz, /metrics and /status\n")

    def _verdict(self, ask: Callable[[], Awaitable[str]], bad: int) -> None:
        problem = self._on_loop(ask)
        self._answer(bad if problem else 200, _TEXT, f"{problem or 'ok'}\n".encode())

    def _on_loop(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, or the problem as text when the loop has none in time."""

        async def answer() -> Any:
            return await ask()

        future = asyncio.run_coroutine_threadsafe(answer(), self.server.loop)
        try:
            return future.result(_LOOP_TIMEOUT)
        except concurrent.futures.TimeoutError:
            future.cancel()
            return f"the plugin's event loop did not answer within {_LOOP_TIMEOUT:g} s"

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds: not a word."""
