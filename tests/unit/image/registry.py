# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container registry in memory, for pushes: the part of the OCI distribution specification that clients use."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry(ThreadingHTTPServer):
    """Blobs by digest, manifests by repository and reference."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}  # content type, contents
        self.writes = 0  # manifests put

    @property
    def address(self) -> str:
        """What stands before the repository in an image's name."""
        return f"127.0.0.1:{self.server_port}"


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry that answers while the block runs."""
    registry = Registry()
    thread = threading.Thread(target=registry.serve_forever, name="registry")
    thread.start()
    try:
        yield registry
    finally:
        registry.shutdown()
        thread.join()
        registry.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def do_GET(self) -> None:
        if self.path == "/v2/":
            return self._answer(200)
        if match := re.fullmatch(r"/v2/.+/blobs/(sha256:[0-9a-f]+)", self.path):
            blob = self.server.blobs.get(match[1])
            return self._answer(404) if blob is None else self._answer(200, blob, {"Docker-Content-Digest": match[1]})
        if match := re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", self.path):
            found = self.server.manifests.get((match[1], match[2]))
            if found is None:
                return self._answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}')
            return self._answer(200, found[1], {"Content-Type": found[0], "Docker-Content-Digest": _digest(found[1])})
        return self._answer(404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._body()
        upload = f"{self.path.rstrip('/')}/{len(self.server.uploads)}"
        self.server.uploads[upload] = b""
        self._answer(202, headers={"Location": upload})

    def do_PATCH(self) -> None:
        self.server.uploads[self.path] += self._body()
        end = len(self.server.uploads[self.path]) - 1
        self._answer(202, headers={"Location": self.path, "Range": f"0-{end}"})

    def do_PUT(self) -> None:
        body = self._body()
        if match := re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", self.path):
            entry = (self.headers["Content-Type"], body)
            self.server.manifests[(match[1], match[2])] = self.server.manifests[(match[1], _digest(body))] = entry
            self.server.writes += 1
            return self._answer(201, headers={"Docker-Content-Digest": _digest(body)})
        upload = self.path.partition("?")[0]
        blob = self.server.uploads.pop(upload) + body
        self.server.blobs[_digest(blob)] = blob
        return self._answer(201, headers={"Location": self.path, "Docker-Content-Digest": _digest(blob)})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().strip(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet: the test's own output tells what went wrong."""


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
