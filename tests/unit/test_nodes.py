# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether device nodes are still those of their NICs, on simulated machines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rdma_dp.core import discovery
from rdma_dp.nodes import changed
from tests import nics

MACHINES = ["h20", "cx7", "dual-port", "vfs", "rxe", "efa", "irdma", "multi-plane"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")


def small(name: str) -> nics.Machine:
    """The machine with short GID tables: writing them takes most of the time, and nothing here reads them."""
    machine = nics.machine(name)
    return replace(
        machine,
        rdma_devices=tuple(
            replace(device, ports=tuple(replace(port, table_size=16) for port in device.ports))
            for device in machine.rdma_devices
        ),
    )


@pytest.mark.parametrize("name", MACHINES)
def test_a_fresh_snapshot_agrees_with_the_machine(name: str, tmp_path: Path) -> None:
    simulated = nics.build(small(name), tmp_path)
    found = discovery.scan(simulated.sys, simulated.dev)
    assert found.nics
    assert changed(found.nics, found.rdma_cm, simulated.sys, simulated.dev) is None


@needs_root
def test_a_driver_reload_is_noticed_and_a_new_snapshot_agrees_again(tmp_path: Path) -> None:
    simulated = nics.build(small("h20"), tmp_path)
    before = discovery.scan(simulated.sys, simulated.dev)
    simulated.reload_driver()
    after = discovery.scan(simulated.sys, simulated.dev)
    text = changed(before.nics, before.rdma_cm, simulated.sys, simulated.dev)
    assert text is not None
    assert "uverbs" in text or "umad" in text
    assert changed(after.nics, after.rdma_cm, simulated.sys, simulated.dev) is None


@needs_root
@pytest.mark.parametrize("name", ["uverbs0", "rdma_cm"])
def test_a_missing_node_is_named(name: str, tmp_path: Path) -> None:
    simulated = nics.build(small("h20"), tmp_path)
    found = discovery.scan(simulated.sys, simulated.dev)
    (simulated.dev / "infiniband" / name).unlink()
    text = changed(found.nics, found.rdma_cm, simulated.sys, simulated.dev)
    assert text is not None
    assert f"infiniband/{name}" in text


@needs_root
def test_a_node_with_another_number_is_named(tmp_path: Path) -> None:
    simulated = nics.build(small("h20"), tmp_path)
    found = discovery.scan(simulated.sys, simulated.dev)
    node = simulated.dev / "infiniband/uverbs0"
    node.unlink()
    os.mknod(node, 0o20666, os.makedev(1, 3))
    assert "uverbs0" in (changed(found.nics, found.rdma_cm, simulated.sys, simulated.dev) or "")


def test_an_rdma_device_that_moved_to_another_function_is_named(tmp_path: Path) -> None:
    simulated = nics.build(small("h20"), tmp_path)
    found = discovery.scan(simulated.sys, simulated.dev)
    moved = [replace(nic, pci_address="0000:ff:00.0") for nic in found.nics]
    assert "no longer at 0000:ff:00.0" in (changed(moved, None, simulated.sys, simulated.dev) or "")
