# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line (DESIGN.md 6): flags, exit codes, and what goes to stdout and stderr."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rdma_dp import cli, serve
from rdma_dp.options import ServeOptions
from rdma_dp.version import VERSION
from tests import nics

GOOD = {"configList": [{"resourceName": "hca", "selectors": {"rdmaDevices": ["*"]}}]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(GOOD))
    return file


def place(name: str, root: Path) -> list[str]:
    """The flags for a simulated machine."""
    (root / "machine").mkdir()
    nics.build(name, root / "machine")
    return ["--sysfs", str(root / "machine/sys"), "--dev", str(root / "machine/dev")]


def written(root: Path, document: Any) -> str:
    file = root / "config.yaml"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(file)


# --- validate -------------------------------------------------------------------------------------------------------

EIGHT_MISTAKES = """\
periodicUpdateInterval: -10
configList:
- resourceName: _hca
  rdmaHcaMaximum: 1000
  selectors:
    vendors: [1017]
    linkTypes: [ethernot]
    ifName: [ib0]
- resourceName: b
  mode: exclusive
  rdmaHcaMax: 4
  devices: ib0
"""
EIGHT_PATHS = [
    "periodicUpdateInterval",
    "configList[0].resourceName",
    "configList[0].rdmaHcaMaximum",
    "configList[0].selectors.vendors[0]",
    "configList[0].selectors.linkTypes[0]",
    "configList[0].selectors.ifName",
    "configList[1].rdmaHcaMax",
    "configList[1].devices",
]


def test_validate_prints_the_normalised_config(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--config", str(config)]) == 0
    out, err = capsys.readouterr()
    assert not err
    found = yaml.safe_load(out)
    assert found["periodicUpdateInterval"] == 60
    assert found["configList"][0]["rdmaHcaMax"] == 1000
    config.write_text(out)
    assert cli.main(["validate", "--config", str(config)]) == 0
    assert capsys.readouterr().out == out


def test_validate_lists_eight_mistakes_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, EIGHT_MISTAKES)
    assert cli.main(["validate", "--config", file]) == 1
    out, err = capsys.readouterr()
    assert err == f"rdma-dp: {file} is not valid: 8 problems\n"
    lines = out.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head.split(": ")[1] for head in heads] == EIGHT_PATHS
    assert [int(head.split(":")[1]) for head in heads] == [1, 3, 4, 6, 7, 8, 11, 12]
    assert len(lines) == 16  # each with its remedy


def test_validate_as_json(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "--config", str(config), "--format", "json"]) == 0
    good = json.loads(capsys.readouterr().out)
    assert good["valid"] is True
    assert good["problems"] == []
    assert good["config"]["configList"][0]["resourceName"] == "hca"
    assert cli.main(["validate", "--config", written(tmp_path, EIGHT_MISTAKES), "--format", "json"]) == 1
    bad = json.loads(capsys.readouterr().out)
    assert bad["valid"] is False
    assert bad["config"] is None
    assert [problem["path"] for problem in bad["problems"]] == EIGHT_PATHS
    assert {frozenset(problem) for problem in bad["problems"]} == {frozenset({"path", "message", "hint"})}


# --- discover -------------------------------------------------------------------------------------------------------


def test_discover_without_nics_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sys").mkdir()
    assert cli.main(["discover", "--sysfs", str(tmp_path / "sys"), "--dev", str(tmp_path)]) == 0
    assert "There is no RDMA NIC" in capsys.readouterr().out


def test_discover_without_nics_as_json(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sys/class/net").mkdir(parents=True)
    arguments = ["discover", "--sysfs", str(tmp_path / "sys"), "--dev", str(tmp_path), "--format", "json"]
    assert cli.main(arguments) == 0
    nothing = {"nics": [], "pools": [], "rdma_cm": None, "warnings": []}
    assert json.loads(capsys.readouterr().out) == nothing
    assert cli.main([*arguments, "--config", str(config)]) == 0
    pool = {"resource": "rdma/hca", "mode": "shared", "devices": 0, "healthy": 0, "nics": [], "warnings": []}
    assert json.loads(capsys.readouterr().out) == {**nothing, "pools": [pool]}


def test_discover_json_says_what_is_wrong_with_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PCI functions of RDMA NICs and no RDMA device: a script must not take it for a machine without NICs."""
    found = discovered(place("no-driver", tmp_path), capsys)
    assert found["nics"] == []
    assert found["warnings"]


def test_discover_json_tells_nics_that_pools_leave_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Capture 21, an HGX B200: four of its RDMA devices manage the NVSwitches, as their VPD says."""
    capture = next((Path(nics.__file__).parent / "captures").glob("21-*.json"))
    (tmp_path / "machine").mkdir()
    nics.build(capture, tmp_path / "machine")
    found = discovered(["--sysfs", str(tmp_path / "machine/sys"), "--dev", str(tmp_path / "machine/dev")], capsys)
    bridges = [nic for nic in found["nics"] if "NVSwitch" in nic["default_excluded"]]
    assert len(bridges) == 4
    assert {nic["default_excluded"] for nic in found["nics"] if nic not in bridges} <= {""}
    assert {(tuple(nic["taken_by"]), nic["refused"]) for nic in found["nics"]} == {((), None)}


def test_discover_table_of_a_big_machine_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = place("b300", tmp_path)
    document = {
        "configList": [
            {"resourceName": "hca", "mode": "exclusive", "selectors": {"rdmaDevices": ["mlx5_bond_[01]"]}},
            {"resourceName": "intel", "selectors": {"vendors": ["8086"]}},
        ]
    }
    assert cli.main(["discover", *flags, "--config", written(tmp_path, document)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 120
    assert "\x1b" not in out
    rows = [line.split() for line in out.splitlines() if "mlx5_bond_" in line and not line.startswith(" ")]
    by_name = {row[1]: row for row in rows if row[1].startswith("mlx5_bond_")}
    assert len(by_name) == 8
    assert [by_name[f"mlx5_bond_{k}"][-1] for k in range(8)] == ["rdma/hca"] * 2 + ["none"] * 6
    assert out.count("rdma/intel: vendors: 15b3 is not one of 8086") == 6
    assert "rdma/hca: rdmaDevices: mlx5_bond_7 is not one of mlx5_bond_[01]" in " ".join(out.split())


def test_discover_json_has_the_fields_of_the_design(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = place("h20", tmp_path)
    assert cli.main(["discover", *flags, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pools"] == []
    assert len(found["nics"]) == 4
    identity = ["id", "rdma_device", "pci_address", "vendor", "device_id", "driver", "numa_node", "function"]
    state = ["netdevs", "link_layer", "ports", "char_devices", "usable", "reasons"]
    assert list(found["nics"][0]) == [*identity, *state, "default_excluded", "taken_by", "refused"]
    assert found["warnings"] == []
    assert (found["rdma_cm"]["kind"], found["rdma_cm"]["present"]) == ("rdma_cm", True)
    port = found["nics"][0]["ports"][0]
    assert list(port) == ["port", "state", "phys_state", "link_layer", "rate", "gids"]
    assert list(port["gids"][0]) == ["index", "gid", "type", "netdev"]
    assert (port["port"], port["state"], port["link_layer"]) == (1, "ACTIVE", "ether")

    assert cli.main(["discover", *flags, "--format", "json", "--config", str(config)]) == 0
    found = json.loads(capsys.readouterr().out)
    ids = [nic["id"] for nic in found["nics"]]
    pool = {"resource": "rdma/hca", "mode": "shared", "devices": 1000, "healthy": 1000, "nics": ids, "warnings": []}
    assert found["pools"] == [pool]
    assert {tuple(nic["taken_by"]) for nic in found["nics"]} == {("rdma/hca",)}
    assert {nic["refused"] for nic in found["nics"]} == {None}


def test_discover_counts_what_a_starting_plugin_would_offer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = place("h20", tmp_path)
    simulated = nics.load(tmp_path / "machine")
    document = {"configList": [{"resourceName": "hca", "mode": "exclusive", "selectors": {"rdmaDevices": ["*"]}}]}
    file = written(tmp_path, document)
    names = [nic["rdma_device"] for nic in discovered(flags, capsys)["nics"]]
    simulated.set_port(names[0], 1, "DOWN")
    found = discovered([*flags, "--config", file], capsys)
    assert (found["pools"][0]["devices"], found["pools"][0]["healthy"]) == (4, 3)


def test_discover_table_cuts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Capture 35: an mlx4 VPI card, one port InfiniBand and one Ethernet. The b300: bonds over two ports each."""
    capture = next((Path(nics.__file__).parent / "captures").glob("35-*.json"))
    (tmp_path / "35").mkdir()
    nics.build(capture, tmp_path / "35")
    assert cli.main(["discover", "--sysfs", str(tmp_path / "35/sys"), "--dev", str(tmp_path / "35/dev")]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    column = slice(head.index("LINK"), head.index("STATE"))
    assert [line[column].strip() for line in (first, second)] == ["infiniband/", "ether"]

    pool = {"resourceName": "a-resource-with-a-long-name", "selectors": {"rdmaDevices": ["*"]}}
    file = written(tmp_path, {"configList": [pool]})
    assert cli.main(["discover", *place("b300", tmp_path), "--config", file]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 120
    assert ".." not in out
    for number in range(8):
        assert re.search(rf" bond{number}, ", out)  # first, as it carries the addresses
        assert f"rdma{number}_p1" in out


def test_discover_shows_all_that_is_wrong_with_a_nic_that_no_pool_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who widens the selectors should not learn only then that the NIC can't be used at all."""
    flags = place("h20", tmp_path)
    for node in (tmp_path / "machine/dev/infiniband").glob("uverbs*"):
        node.unlink()
    (reason,) = {
        reason.partition("uverbs")[0] for nic in discovered(flags, capsys)["nics"] for reason in nic["reasons"]
    }
    document = {"configList": [{"resourceName": "hca", "selectors": {"vendors": ["8086"]}}]}
    assert cli.main(["discover", *flags, "--config", written(tmp_path, document)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("vendors: 15b3 is not one of 8086") == 4
    assert out.count("- " + reason.strip()) == 4


@pytest.mark.parametrize(
    ("selectors", "devices", "told"),
    [
        ({"ifNames": ["ibp141s0v0"]}, 1, False),
        ({"pciAddresses": ["0000:8d:00.1"]}, 1, False),
        ({"deviceIDs": ["101e"]}, 0, True),
        ({"deviceIDs": ["101e"], "functions": ["vf"]}, 8, False),
    ],
)
def test_discover_with_a_config_for_vfs_of_todays_plugin(
    selectors: dict[str, Any], devices: int, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Capture 12: eight VFs of InfiniBand NICs, device ID 101e."""
    capture = next((Path(nics.__file__).parent / "captures").glob("12-*.json"))
    nics.build(capture, tmp_path)
    file = written(tmp_path, {"configList": [{"resourceName": "hca", "mode": "exclusive", "selectors": selectors}]})
    found = discovered(["--sysfs", str(tmp_path / "sys"), "--dev", str(tmp_path / "dev"), "--config", file], capsys)
    (pool,) = found["pools"]
    assert pool["devices"] == devices
    assert any("functions: [vf]" in warning for warning in pool["warnings"]) == told


def discovered(flags: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert cli.main(["discover", "--format", "json", *flags]) == 0
    return json.loads(capsys.readouterr().out)


def test_discover_with_a_bad_config_lists_its_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, EIGHT_MISTAKES)
    assert cli.main(["discover", "--sysfs", str(tmp_path), "--dev", str(tmp_path), "--config", file]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 8
    assert err.startswith(f"rdma-dp: {file}: line 1: periodicUpdateInterval: -10 is not between")


def test_discover_warnings_are_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = place("h20", tmp_path)
    both = {"configList": [*GOOD["configList"], {**GOOD["configList"][0], "resourceName": "b"}]}
    assert cli.main(["discover", *flags, "--config", written(tmp_path, both)]) == 0
    assert capsys.readouterr().err.count("is shared with rdma/b") == 4
    found = discovered([*flags, "--config", str(tmp_path / "config.yaml")], capsys)
    assert [sum("is shared with" in warning for warning in pool["warnings"]) for pool in found["pools"]] == [4, 4]


# --- serve ----------------------------------------------------------------------------------------------------------


def served(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> ServeOptions:
    caught: list[ServeOptions] = []

    def run(options: ServeOptions) -> int:
        caught.append(options)
        return 7

    monkeypatch.setattr(serve, "run", run)
    assert cli.main(["serve", *arguments]) == 7
    return caught[0]


def test_serve_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(["--config", "c"], monkeypatch) == ServeOptions(
        config=Path("c"),
        kubelet_dir=Path("/var/lib/kubelet/device-plugins"),
        sysfs=Path("/sys"),
        dev=Path("/dev"),
        host_dev=Path("/dev"),
        pod_resources=None,
        cdi_dir=None,
        listen=None,
        log_format="text",
        log_level="info",
    )


def test_serve_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (
        "--config c --kubelet-dir k --sysfs s --dev d --host-dev h --pod-resources p --cdi-dir i --listen [::]:9400 "
        "--log-format json --log-level WARNING"
    )
    assert served(arguments.split(), monkeypatch) == ServeOptions(
        config=Path("c"),
        kubelet_dir=Path("k"),
        sysfs=Path("s"),
        dev=Path("d"),
        host_dev=Path("h"),
        pod_resources=Path("p"),
        cdi_dir=Path("i"),
        listen=("::", 9400),
        log_format="json",
        log_level="warning",
    )


def test_host_dev_is_dev_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(["--config", "c", "--dev", "/host/dev"], monkeypatch).host_dev == Path("/host/dev")


@pytest.mark.parametrize(
    ("text", "listen"),
    [("0.0.0.0:9400", ("0.0.0.0", 9400)), (":0", ("0.0.0.0", 0)), ("localhost:65535", ("localhost", 65535))],
)
def test_listen(text: str, listen: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(["--config", "c", "--listen", text], monkeypatch).listen == listen


# --- wrong usage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: COMMAND; see rdma-dp --help"),
        ("valid", "invalid choice: 'valid'"),
        ("validate", "required: --config; see rdma-dp validate --help"),
        ("validate --config", "--config: expected one argument"),
        ("validate --conf x", "required: --config"),
        ("validate --config x --format yaml", "invalid choice: 'yaml'"),
        ("validate --config /does/not/exist", "--config /does/not/exist: does not exist"),
        ("validate --config /", "--config /: is a directory; name the file in it"),
        ("discover --config /does/not/exist", "--config /does/not/exist: does not exist"),
        ("discover --sysfs /does/not/exist", "--sysfs /does/not/exist: there is no such directory"),
        ("discover --dev /dev/null", "--dev /dev/null: there is no such directory"),
        ("discover now", "unrecognized arguments: now"),
        ("serve", "required: --config; see rdma-dp serve --help"),
        ("serve --config=", "argument --config: must not be empty"),
        ("serve --config x --listen 9400", "--listen: '9400' is not HOST:PORT"),
        ("serve --config x --listen h:65536", "port up to 65535"),
        ("serve --config x --listen h:-1", "port up to 65535"),
        ("serve --config x --listen ::1:9400", "in brackets"),
        ("serve --config x --log-level loud", "invalid choice: 'loud'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert not out
    assert message in err
    assert err.count("\n") == 1
    assert err.startswith("rdma-dp: ")


def test_help_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "discover" in capsys.readouterr().out


# --- as a process ---------------------------------------------------------------------------------------------------


def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "rdma_dp", *arguments], capture_output=True, check=False, **settings)


def test_version() -> None:
    found = run("version")
    assert (found.returncode, found.stdout, found.stderr) == (0, f"rdma-dp {VERSION}\n".encode(), b"")


def test_small_commands_load_no_large_libraries(config: Path) -> None:
    code = (
        "import sys; from rdma_dp import cli; assert cli.main(sys.argv[1:]) == 0;"
        "found = {'yaml', 'grpc', 'google.protobuf', 'prometheus_client', 'asyncio'} & set(sys.modules);"
        "assert not found, found"
    )
    for arguments in (["version"], ["validate", "--format", "json", "--config", str(config)], ["discover"]):
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("arguments", [["validate", "--config"], ["discover", "--format", "json", "--config"]])
def test_a_reader_that_leaves_is_no_error(arguments: list[str], config: Path) -> None:
    """``rdma-dp discover | head -1``"""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        found = subprocess.run(
            [sys.executable, "-m", "rdma_dp", *arguments, str(config)], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (found.returncode, found.stderr) == (0, b"")


def test_a_result_that_can_not_be_written_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        found = subprocess.run(
            [sys.executable, "-m", "rdma_dp", "version"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert found.returncode == 2
    assert found.stderr == b"rdma-dp: the result can't be written: No space left on device\n"


def test_interrupt_is_quiet(tmp_path: Path) -> None:
    """Ctrl-C while the config comes from a pipe to which nobody writes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = (
        "import signal, sys; from rdma_dp import cli;"
        "signal.setitimer(signal.ITIMER_REAL, 0.2); signal.signal(signal.SIGALRM, signal.default_int_handler);"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, "validate", "--config", str(fifo)], capture_output=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, b"", b"")


@pytest.mark.parametrize("variable", [None, "NO_COLOR", "TERM"])
def test_colours_only_on_a_terminal_that_wants_them(variable: str | None, tmp_path: Path) -> None:
    flags = place("h20", tmp_path)
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    if variable:
        environment[variable] = "dumb"
    main, terminal = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "rdma_dp", "discover", *flags], stdout=terminal, env=environment, check=True
        )
        output = os.read(main, 100000)
    finally:
        os.close(main)
        os.close(terminal)
    assert (b"\x1b[" in output) == (variable is None)


def test_names_that_the_terminals_encoding_lacks(tmp_path: Path) -> None:
    file = written(tmp_path, "configList:\n- resourceName: 장치\n")
    found = run("validate", "--config", file, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert found.returncode == 1
    assert b"Traceback" not in found.stderr
    assert b"configList[0].resourceName" in found.stdout
