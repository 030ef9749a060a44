# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin as a process: how it starts, what it needs, how it ends, and what it shows over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from tests import nics
from tests.protocol.fake_kubelet import FakeKubelet, running
from tests.protocol.node import EXCLUSIVE, SHARED, Node

HCA = "rdma/hca"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stops_within_two_seconds_and_takes_its_sockets_with_it(
    node: Node, kubelet: FakeKubelet, number: signal.Signals
) -> None:
    node.write_config(
        {**SHARED, "selectors": {"rdmaDevices": ["mlx5_bond_0"]}},
        {**EXCLUSIVE, "selectors": {"rdmaDevices": ["mlx5_bond_[1-7]"]}},
    )
    await node.start("--listen", "127.0.0.1:0")
    await kubelet.until_offered(HCA, 1000)
    await kubelet.until_offered("rdma/nic", 7)
    started = time.monotonic()
    node.signal(number)
    assert await node.ended() == 0
    assert time.monotonic() - started < 2
    assert not node.sockets()
    await kubelet.until_offered(HCA, 0, within=1)


async def test_stops_at_once_while_it_waits_for_kubelet(node: Node) -> None:
    await node.start()
    await node.until_logged("waiting for kubelet")
    assert await node.stop() < 2


async def test_sigterm_right_after_the_start(node: Node, kubelet: FakeKubelet) -> None:
    """At any moment of the start: an ordinary end, no traceback, no socket left."""
    for delay in (0.15, 0.25, 0.35, 0.45):
        await node.start()
        await asyncio.sleep(delay)
        node.signal(signal.SIGTERM)
        assert await node.ended() in (0, -signal.SIGTERM)  # the signal itself, before Python runs any of our code
        assert not node.sockets()
    assert not any("Traceback" in line for line in node.lines())


async def test_node_without_nics_is_ready_and_offers_nothing(node: Node, kubelet: FakeKubelet) -> None:
    shutil.rmtree(node.sysfs)
    shutil.rmtree(node.dev)
    (node.root / "machine.json").unlink()
    bare = node.root / "bare"
    bare.mkdir()
    nics.build("none", bare)
    (bare / "sys").rename(node.sysfs)
    (bare / "dev").rename(node.dev)
    await node.start("--listen", "127.0.0.1:0")
    await node.until_logged("it is not offered")
    assert await node.get("/readyz") == (200, "ok\n")
    assert await node.get("/healthz") == (200, "ok\n")
    assert await node.metric("rdma_dp_devices", resource=HCA, health="healthy") == 0
    assert not kubelet.requests
    assert await node.stop() < 2


async def test_without_capabilities_and_with_a_read_only_root(node: Node, kubelet: FakeKubelet) -> None:
    """As in its container (DESIGN.md 7.8). A user namespace of its own would hide what UID 0 may still do: setpriv."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("unshare") is None:
        pytest.skip("needs root, setpriv and unshare")
    script = (
        'mount -o remount,bind,ro / && mount -o bind "$1" "$1" && mount -o remount,bind,rw "$1" && shift && exec "$@"'
    )
    wrapper = (
        *("unshare", "--mount", "sh", "-c", script, "sh", str(node.kubelet_dir)),
        *("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
    )
    await node.start("--listen", "127.0.0.1:0", wrapper=wrapper)
    await kubelet.until_offered(HCA, 1000)
    await kubelet.allocate(HCA, "rdma.hca-1")
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert await node.stop() < 2
    assert not node.sockets()


async def test_kubelet_directory_without_permission_is_named_and_tried_again(node: Node, kubelet: FakeKubelet) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    node.kubelet_dir.chmod(0o555)
    await node.start(wrapper=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))  # UID 0 may write anywhere else
    line = await node.until_logged("cannot listen on a socket")
    assert "no permission to write to it as UID 0" in line
    node.kubelet_dir.chmod(0o750)
    await kubelet.until_offered(HCA, 1000, within=7)


async def test_directories_with_unusual_names(node: Node) -> None:
    node.kubelet_dir = node.root / "a dir%20with;#?"
    node.kubelet_dir.mkdir()
    async with running(FakeKubelet(node.kubelet_dir)) as kubelet:
        await kubelet.start()
        await node.start()
        await kubelet.until_offered(HCA, 1000)
        assert len(node.sockets()) == 1
        await node.stop()
        assert not node.sockets()


async def test_nothing_on_the_host_is_changed(node: Node, kubelet: FakeKubelet) -> None:
    def everything() -> dict[str, tuple[int, int, int]]:
        found = {}
        for top in (node.sysfs, node.dev, node.config.parent):
            for path in top.rglob("*"):
                status = path.lstat()
                found[str(path)] = (status.st_ino, status.st_mode, status.st_mtime_ns)
        return found

    (node.kubelet_dir / "kubelet_internal_checkpoint").write_text("kubelet's")
    (node.kubelet_dir / "DEPRECATION").write_text("kubelet's")  # rule 7: no reason not to register
    before = everything()
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    await kubelet.allocate(HCA, "rdma.hca-1")
    await node.stop()
    assert everything() == before
    names = sorted(path.name for path in node.kubelet_dir.iterdir())
    assert names == ["DEPRECATION", "kubelet.sock", "kubelet_internal_checkpoint"]


# --- what it refuses to start with ----------------------------------------------------------------------------------


async def test_config_with_mistakes_names_all_of_them(node: Node) -> None:
    node.write_config({"resourceName": "_x", "rdmaHcaMax": -1, "selectors": {"vendor": ["15b3"]}})
    await node.start()
    assert await node.ended() == 1
    text = "\n".join(node.lines())
    for part in ("configList[0].resourceName", "configList[0].rdmaHcaMax", "configList[0].selectors.vendor"):
        assert part in text
    assert "Traceback" not in text


async def test_missing_config_file(node: Node) -> None:
    node.config.unlink()
    await node.start()
    assert await node.ended() == 2
    assert f"--config {node.config}: does not exist" in node.lines()[-1]


async def test_missing_kubelet_directory_is_said_loudly(node: Node) -> None:
    node.kubelet_dir.rmdir()
    await node.start()
    assert await node.ended() == 2
    [line] = node.lines()
    assert f"--kubelet-dir {node.kubelet_dir}: there is no such directory" in line


async def test_kubelet_directory_with_too_long_a_path(node: Node) -> None:
    node.kubelet_dir = node.root / ("d" * 70)
    node.kubelet_dir.mkdir()
    await node.start()
    assert await node.ended() == 2
    [line] = node.lines()
    assert "no room for a socket name" in line


async def test_http_port_that_is_taken(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        await node.start("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert await node.ended() == 2
    assert "cannot listen there: Address already in use" in node.lines()[-1]


async def test_what_this_version_does_not_do_is_said(node: Node, kubelet: FakeKubelet) -> None:
    node.write_config({**SHARED, "cdi": True})
    await node.start("--pod-resources", "/run/pr.sock", "--cdi-dir", "/run/cdi")
    await kubelet.until_offered(HCA, 1000)
    for text in ("--pod-resources is not used", "--cdi-dir is not used", "cdi: true is not used"):
        await node.until_logged(text)


# --- HTTP and log ---------------------------------------------------------------------------------------------------


async def test_metrics_exist_from_the_first_scrape(node: Node, kubelet: FakeKubelet) -> None:
    await node.start("--listen", "127.0.0.1:0")
    await kubelet.until_offered(HCA, 1000)
    for name, labels, value in [
        ("rdma_dp_devices", {"resource": HCA, "health": "healthy"}, 1000),
        ("rdma_dp_devices", {"resource": HCA, "health": "unhealthy"}, 0),
        ("rdma_dp_kubelet_connected", {"resource": HCA}, 1),
        ("rdma_dp_registrations_total", {"resource": HCA, "result": "ok"}, 1),
        ("rdma_dp_registrations_total", {"resource": HCA, "result": "refused"}, 0),
        ("rdma_dp_allocations_total", {"resource": HCA, "result": "ok"}, 0),
        ("rdma_dp_allocations_total", {"resource": HCA, "result": "refused"}, 0),
        ("rdma_dp_allocate_seconds_count", {"resource": HCA}, 0),
        ("rdma_dp_config_reloads_total", {"result": "error"}, 0),
        ("rdma_dp_scans_total", {"result": "error"}, 0),
        ("rdma_dp_nic_up", {"nic": "mlx5_bond_7", "port": "1"}, 1),
    ]:
        assert await node.metric(name, **labels) == value, (name, labels)
    assert await node.metric("rdma_dp_scans_total", result="ok") >= 1
    assert abs(await node.metric("rdma_dp_last_scan_timestamp_seconds") - time.time()) < 60
    _unused, status = await node.get("/status")
    digest = json.loads(status)["config"]["hash"]
    assert await node.metric("rdma_dp_config_info", hash=digest) == 1
    await kubelet.allocate(HCA, "rdma.hca-1")
    assert await node.metric("rdma_dp_allocations_total", resource=HCA, result="ok") == 1
    assert await node.metric("rdma_dp_allocate_seconds_count", resource=HCA) == 1


async def test_ready_only_while_kubelet_watches(node: Node, kubelet: FakeKubelet) -> None:
    await node.start("--listen", "127.0.0.1:0")
    await kubelet.until_offered(HCA, 1000)
    assert await node.get("/readyz") == (200, "ok\n")
    await kubelet.stop()
    await node.until_page("/readyz", 503)
    assert await node.metric("rdma_dp_kubelet_connected", resource=HCA) == 0
    assert await node.get("/healthz") == (200, "ok\n")
    await kubelet.start()
    await kubelet.until_offered(HCA, 1000)
    await node.until_page("/readyz", 200)
    assert (await node.get("/nothing"))[0] == 404


async def test_connections_that_say_nothing_do_not_block_the_probes(node: Node, kubelet: FakeKubelet) -> None:
    await node.start("--listen", "127.0.0.1:0")
    await kubelet.until_offered(HCA, 1000)
    port = await node.port()
    silent = [socket.create_connection(("127.0.0.1", port)) for _unused in range(10)]
    try:
        assert await node.get("/healthz") == (200, "ok\n")
    finally:
        for connection in silent:
            connection.close()


async def test_listens_on_ipv6(node: Node, kubelet: FakeKubelet) -> None:
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    await node.start("--listen", "[::1]:0")
    port = await node.port()
    reader, writer = await asyncio.open_connection("::1", port)
    writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert b"200" in await reader.readline()
    writer.close()


async def test_json_log(node: Node, kubelet: FakeKubelet) -> None:
    await node.start("--log-format", "json")
    await kubelet.until_offered(HCA, 1000)
    await node.until_logged("registered with kubelet")
    events = [json.loads(line) for line in node.lines()]
    [event] = [event for event in events if event["message"] == "registered with kubelet"]
    assert event["level"] == "info"
    assert event["resource"] == HCA
    assert event["socket"] == kubelet.requests[0].endpoint


async def test_quiet_in_steady_state(node: Node, kubelet: FakeKubelet) -> None:
    await node.start()
    await kubelet.until_offered(HCA, 1000)
    await node.until_logged("registered with kubelet")
    before = node.lines()
    await asyncio.sleep(1.5)  # 15 looks at the NICs, one at the config
    assert node.lines() == before
    assert kubelet.plugins[HCA].messages == 1
