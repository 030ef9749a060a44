# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test Job's script: a full picture passes, each missing piece fails with a sentence about it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "image/test/benchmark.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmark"] = module
    spec.loader.exec_module(module)
    return module


benchmark = load()

NAMES = ("mlx5_bond_0", "mlx5_bond_1", "mlx5_bond_10", "mlx5_bond_2")
ORDERED = ("mlx5_bond_0", "mlx5_bond_1", "mlx5_bond_2", "mlx5_bond_10")
GID = "fd00:0000:0000:0000:0000:0000:0000:0001"


def container(**changes: Any) -> Any:
    """What a pod of a good shared node sees, four NICs, no sysfs; with changes."""
    nodes = (
        *(benchmark.Node(f"uverbs{number}", f"231:{192 + number}") for number in range(4)),
        benchmark.Node("rdma_cm", "10:122"),
    )
    facts = benchmark.Facts(
        nodes=nodes,
        environment={"RDMA_DP_RDMA_HCA_DEVICES": ",".join(NAMES)},
        memlock=65536,
        shm_type="tmpfs",
        shm_size=8 * 2**30,
        hostname="pod",
        interfaces=("lo", "eth0"),
        capabilities=("IPC_LOCK", "SYS_RESOURCE"),
    )
    return replace(facts, **changes)


def findings(facts: Any) -> list[tuple[str, str]]:
    return [(finding.severity, finding.message) for finding in benchmark.judge(facts)]


def last_line(facts: Any) -> str:
    return str(benchmark.report(facts, benchmark.judge(facts)).splitlines()[-1])


def env(**extra: str) -> dict[str, str]:
    return {"RDMA_DP_RDMA_HCA_DEVICES": ",".join(NAMES), **extra}


def test_everything_there_passes_and_names_the_nics_in_their_order() -> None:
    assert findings(container()) == []
    assert last_line(container()) == f"RDMA test: PASSED (4 NICs: {', '.join(ORDERED)})"


def test_one_nic_is_singular() -> None:
    facts = container(
        nodes=container().nodes[:1] + container().nodes[4:], environment={"RDMA_DP_X_HCA_DEVICES": "mlx5_0"}
    )
    assert last_line(facts) == "RDMA test: PASSED (1 NIC: mlx5_0)"


@pytest.mark.parametrize(
    ("changes", "severity", "words"),
    [
        ({"nodes": ()}, "fail", "no uverbs node"),
        ({"nodes": (benchmark.Node("rdma_cm", "10:122"),)}, "fail", "no uverbs node"),
        (
            {"nodes": (benchmark.Node("uverbs0", "231:192", "Operation not permitted"), *container().nodes[1:])},
            "fail",
            "uverbs0 can't be opened: Operation not permitted",
        ),
        ({"nodes": container().nodes[:4]}, "warn", "modprobe rdma_ucm"),
        ({"nodes": container().nodes[1:]}, "fail", "names 4 NICs"),
        ({"environment": env(RDMA_DP_RDMA_HCB_DEVICES="mlx5_9")}, "fail", "names 5 NICs"),
        ({"environment": {}}, "warn", "another plugin than rdma-dp"),
        ({"owners": {"uverbs0": "mlx5_7"}}, "fail", "uverbs0 belongs to mlx5_7"),
        ({"sysfs_devices": ("mlx5_0",), "gids": {}}, "fail", "mlx5_bond_0, which is not in"),
        ({"sysfs_devices": NAMES, "gids": {}}, "warn", "mlx5_bond_0 has no GID"),
        ({"environment": env(EXPECT_MODE="exclusive")}, "fail", "NCCL_IB_HCA does not name"),
        ({"environment": env(EXPECT_MODE="exclusive", NCCL_IB_HCA="mlx5")}, "fail", "NCCL_IB_HCA does not name"),
        (
            {"environment": env(NCCL_IB_HCA="=mlx5_bond_0")},
            "fail",
            "NCCL_IB_HCA names mlx5_bond_0, but the container got",
        ),
        ({"shm_type": ""}, "fail", "/dev/shm is not mounted"),
        ({"shm_type": "overlay"}, "fail", "/dev/shm is overlay"),
        ({"environment": env(EXPECT_SHM="16Gi")}, "fail", "/dev/shm has 8 GiB, less than the 16 GiB"),
        ({"capabilities": ()}, "warn", "up to 64 KiB only"),
        ({"user": 1000}, "warn", "run as root"),
    ],
)
def test_what_is_not_as_promised_is_said(changes: dict[str, Any], severity: str, words: str) -> None:
    facts = container(**changes)
    found = findings(facts)
    assert [severity for level, message in found if words in message] != [], found
    assert {level for level, message in found if words in message} == {severity}
    assert last_line(facts).startswith("RDMA test: FAILED: " if severity == "fail" else "RDMA test: PASSED (")
    if severity == "fail":
        assert words in last_line(facts)


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": env(NCCL_IB_HCA="mlx5", NCCL_IB_TC="136")},
        {"environment": env(NCCL_IB_HCA=f"={','.join(ORDERED)}")},
        {"environment": env(NCCL_IB_HCA=f"={','.join(f'{name}:1' for name in NAMES)}", EXPECT_MODE="exclusive")},
        {"environment": env(NCCL_IB_HCA="=mlx5_bond_0", EXPECT_MODE="shared")},
        {"environment": env(RDMA_DP_RDMA_TWICE_DEVICES="mlx5_bond_0")},
        {"environment": env(EXPECT_SHM="8Gi")},
        {"memlock": -1, "capabilities": (), "user": 1000},
        {"sysfs_devices": NAMES, "gids": {name: (benchmark.Gid(1, 3, GID, "RoCE v2", "bond0"),) for name in NAMES}},
        {"owners": {f"uverbs{number}": name for number, name in enumerate(NAMES)}},
    ],
)
def test_what_is_as_promised_is_not_complained_about(changes: dict[str, Any]) -> None:
    assert findings(container(**changes)) == []


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("8Gi", 8 * 2**30), ("500M", 500_000_000), ("64Ki", 65536), ("1k", 1000), ("7", 7)]
)
def test_sizes_are_read_as_kubernetes_writes_them(text: str, size: int) -> None:
    assert benchmark.size_of(text) == size


@pytest.mark.parametrize("text", ["8GB", "-1", "1.5Gi", "", "Gi", "8 Gi"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="EXPECT_SHM"):
        benchmark.size_of(text)


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        ("00000000a80425fb", ()),  # containerd's default set
        ("00000000a80465fb", ("IPC_LOCK",)),
        ("00000000a90465fb", ("IPC_LOCK", "SYS_RESOURCE")),
        ("000001ffffffffff", ("IPC_LOCK", "SYS_RESOURCE")),
    ],
)
def test_capabilities_are_the_effective_ones(bits: str, names: tuple[str, ...]) -> None:
    status = f"Name:\tpython\nCapPrm:\t0000000000000000\nCapEff:\t{bits}\nCapBnd:\t000001ffffffffff\n"
    assert benchmark.effective_capabilities(status) == names


def test_device_nodes_are_opened(tmp_path: Path) -> None:
    (tmp_path / "uverbs10").symlink_to("/dev/null")
    (tmp_path / "uverbs9").symlink_to("/dev/zero")
    (tmp_path / "umad0").write_text("")
    (tmp_path / "by-path").mkdir()
    assert benchmark.device_nodes(tmp_path) == (
        benchmark.Node("umad0", "", "it is no character device"),
        benchmark.Node("uverbs9", "1:5"),
        benchmark.Node("uverbs10", "1:3"),
    )
    assert benchmark.device_nodes(tmp_path / "missing") == ()


def sysfs(top: Path) -> Path:
    """The sysfs of one bond: GID 0 empty, 1 link-local, 3 routable."""
    port = top / "class/infiniband/mlx5_bond_0/ports/1"
    for index, (gid, kind) in enumerate(
        [
            ("0000:" * 7 + "0000", ""),
            ("fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1"),
            ("0000:" * 7 + "0000", ""),
            (GID, "RoCE v2"),
        ]
    ):
        for folder, text in (("gids", gid), ("gid_attrs/types", kind), ("gid_attrs/ndevs", "bond0" if kind else "")):
            (port / folder).mkdir(parents=True, exist_ok=True)
            (port / folder / str(index)).write_text(text + "\n")
    (top / "class/infiniband_verbs/uverbs0").mkdir(parents=True)
    (top / "class/infiniband_verbs/uverbs0/ibdev").write_text("mlx5_bond_0\n")
    return top


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", SCRIPT],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_whole_script_on_a_container_with_one_nic(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/uverbs0").symlink_to("/dev/null")
    (tmp_path / "dev/rdma_cm").symlink_to("/dev/null")
    done = run(
        RDMA_DEV=str(tmp_path / "dev"),
        RDMA_SYSFS=str(sysfs(tmp_path / "sys")),
        RDMA_DP_RDMA_HCA_DEVICES="mlx5_bond_0",
        NCCL_IB_HCA="=mlx5_bond_0",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "RDMA test: PASSED (1 NIC: mlx5_bond_0)"
    assert "uverbs0      1:3       opened  (mlx5_bond_0)" in done.stdout
    assert f"mlx5_bond_0 port 1 GID 3   {GID}  RoCE v2  bond0" in done.stdout
    assert "GID 0 " not in done.stdout
    assert "NCCL_IB_HCA==mlx5_bond_0" in done.stdout


def test_the_whole_script_without_any_nic(tmp_path: Path) -> None:
    done = run(RDMA_DEV=str(tmp_path), RDMA_SYSFS=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("RDMA test: FAILED: there is no uverbs node")
    assert "no RDMA sysfs here" in done.stdout
    assert done.stderr == ""


def test_a_wrong_expectation_is_one_line(tmp_path: Path) -> None:
    done = run(EXPECT_SHM="much", RDMA_DEV=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == "RDMA test: FAILED: EXPECT_SHM is 'much'; write a size like 8Gi.\n"
