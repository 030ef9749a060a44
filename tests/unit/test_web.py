# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP side: what a probe gets when all is well, when not, and when the event loop hangs."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rdma_dp import web
from rdma_dp.logs import Log
from rdma_dp.web import ListenError, Pages, WebServer


def pages(health: str = "", ready: str = "") -> Pages:
    async def say(text: str) -> str:
        return text

    async def status() -> dict[str, Any]:
        return {"version": "1"}

    return Pages(lambda: say(health), lambda: say(ready), status, lambda: b"a_metric 1\n")


@asynccontextmanager
async def serving(served: Pages) -> AsyncIterator[Callable[[str], tuple[int, str]]]:
    server = WebServer(("127.0.0.1", 0), served, asyncio.get_running_loop(), Log())
    server.start()

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    try:
        yield get
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("served", "path", "code", "text"),
    [
        (pages(), "/healthz", 200, "ok\n"),
        (pages(), "/readyz?verbose", 200, "ok\n"),
        (pages(health="a socket is dead"), "/healthz", 500, "a socket is dead\n"),
        (pages(ready="no stream"), "/readyz", 503, "no stream\n"),
        (pages(ready="no stream"), "/healthz", 200, "ok\n"),
        (pages(), "/metrics", 200, "a_metric 1\n"),
        (pages(), "/status", 200, '{\n  "version": "1"\n}\n'),
        (pages(), "/", 404, "there are /healthz, /readyz, /metrics and /status\n"),
    ],
)
async def test_pages(served: Pages, path: str, code: int, text: str) -> None:
    async with serving(served) as get:
        assert await asyncio.to_thread(get, path) == (code, text)


@pytest.mark.parametrize(("path", "code"), [("/healthz", 500), ("/readyz", 503), ("/status", 500), ("/metrics", 200)])
async def test_a_loop_that_hangs_is_told(path: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_LOOP_TIMEOUT", 0.05)
    async with serving(pages()) as get:
        answered, found = threading.Event(), []

        def probe() -> None:
            found.append(get(path))
            answered.set()

        threading.Thread(target=probe).start()
        answered.wait(10)  # the loop does nothing else meanwhile: it hangs until the answer is there
        assert found[0][0] == code
        if code != 200:
            assert "event loop did not answer" in found[0][1]


async def test_other_methods_are_refused() -> None:
    server = WebServer(("127.0.0.1", 0), pages(), asyncio.get_running_loop(), Log())
    server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /metrics HTTP/1.0\r\n\r\n")
    assert b"501" in await reader.readline()
    writer.close()
    server.stop()


async def test_an_address_that_is_taken_or_unknown_is_one_sentence() -> None:
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ListenError, match="cannot listen there: Address already in use"),
    ):
        WebServer(("127.0.0.1", taken.getsockname()[1]), pages(), loop, Log())
    with pytest.raises(ListenError, match=r"--listen 192\.0\.2\.1:0: cannot listen there"):
        WebServer(("192.0.2.1", 0), pages(), loop, Log())
