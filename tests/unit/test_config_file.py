# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of every shape: JSON, YAML and its traps, Helm values, ConfigMaps, and files that can't be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rdma_dp import config_file, documents, strict_yaml
from rdma_dp.core import config
from rdma_dp.core.config import ConfigInvalid, Problem
from tests.unit.core.test_config_properties import good_documents

GOOD = {"configList": [{"resourceName": "hca", "selectors": {"vendors": ["15b3"]}}]}
GOOD_CONFIG = config.parse(GOOD)


def parse(text: str) -> config.Config:
    return config_file.parse_text(text)


def problems(text: str) -> list[Problem]:
    with pytest.raises(ConfigInvalid) as caught:
        parse(text)
    return list(caught.value.problems)


def pool(lines: str) -> str:
    """YAML of a pool of all NICs with some more lines, from line 4 on."""
    return "configList:\n- resourceName: hca\n  selectors: {rdmaDevices: ['*']}\n" + "".join(
        f"  {line}\n" for line in lines.splitlines()
    )


# --- forms that are taken -------------------------------------------------------------------------------------------

HELM_VALUES = """
# Values of the chart of today's plugin, as the source document has them
image:
  repository: example.test/k8s-rdma-shared-dev-plugin
  tag: 1.5.3
resources: {}
config:
  periodicUpdateInterval: 300
  configList:
    - resourcePrefix: mellanox
      resourceName: hca_a
      rdmaHcaMax: 1000
      devices:
        - ib0
        - ib1
"""

CONFIGMAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: rdma-devices
  namespace: kube-system
data:
  config.json: |
    {
      "configList": [{
        "resourceName": "hca",
        "selectors": {"vendors": ["15b3"]}
      }]
    }
"""


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        json.dumps(GOOD, indent="\t"),
        yaml.safe_dump(GOOD),
        "---\n" + yaml.safe_dump(GOOD) + "...\n",
        "\n# a comment\n" + json.dumps(GOOD),
        '{configList: [{resourceName: hca, selectors: {vendors: ["15b3"]}}]}',
        '{"configList": [{"resourceName": "hca", "selectors": {"vendors": ["15b3"]}},]} # YAML allows both',
        "configList:\n- &pool\n  resourceName: hca\n  selectors: {vendors: ['15b3']}\n",
        "configList:\n- resourceName: hca\n  selectors:\n    <<: {vendors: ['8086']}\n    vendors: ['15b3']\n",
        "configList:\n- resourceName: hca\n  resourcePrefix: ~\n  mode:\n  selectors: {vendors: [15b3]}\n",
        "config:\n  configList:\n  - resourceName: hca\n    selectors: {vendors: ['15b3']}\nimage: x\nnccl: on\n",
        "config: |\n  " + json.dumps(GOOD),
        CONFIGMAP,
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.json": json.dumps(GOOD)}}),
        yaml.safe_dump({"kind": "ConfigMap", "data": {"config.yaml": yaml.safe_dump(GOOD), "other": "x"}}),
        yaml.safe_dump({"kind": "ConfigMap", "data": {"anything": json.dumps(GOOD)}}),
        yaml.safe_dump({"kind": "ConfigMap", "data": {"config.json": json.dumps(GOOD), "b.json": "x"}}),
    ],
)
def test_forms_that_mean_the_same(text: str) -> None:
    assert parse(text) == GOOD_CONFIG


def test_helm_values_of_the_source_document() -> None:
    found = parse(HELM_VALUES)
    assert found.periodic_update_interval == 300
    assert found.pools[0].resource == "mellanox/hca_a"
    assert found.pools[0].selectors.if_names == ("ib0", "ib1")


def test_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    for text in (json.dumps(GOOD), yaml.safe_dump(GOOD)):
        (tmp_path / "config").write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert config_file.load(tmp_path / "config") == GOOD_CONFIG


def test_windows_line_ends_are_no_mistake() -> None:
    assert parse(yaml.safe_dump(GOOD).replace("\n", "\r\n")) == GOOD_CONFIG


def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    """``--config <(helm get values ...)``"""
    read, write = os.pipe()
    os.write(write, json.dumps(GOOD).encode())
    os.close(write)
    try:
        assert config_file.load(f"/dev/fd/{read}") == GOOD_CONFIG
    finally:
        os.close(read)


# --- YAML's traps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "path", "reading", "remedy"),
    [
        ("nccl: on", "nccl", "true", "write true"),
        ("nccl: off", "nccl", "false", "write false"),
        ("cdi: Yes", "cdi", "true", "write true"),
        ("mode: no", "mode", "false", "write shared or exclusive"),
        ("resourcePrefix: no", "resourcePrefix", "false", 'in quotes: "no"'),
        ("rdmaHcaMax: on", "rdmaHcaMax", "true", "write a whole number"),
        ("rdmaHcaMax: .inf", "rdmaHcaMax", "the number inf", "write a whole number"),
        ("rdmaHcaMax: 0x0", "rdmaHcaMax", "the number 0", "remove the pool"),
        ("rdmaHcaMax: 2026-12-01", "rdmaHcaMax", "a date", "write a whole number"),
        ("rdmaHcaMax: " + "1" * 5000, "rdmaHcaMax", "a number", "write a whole number"),
        ("nccl: 0x10", "nccl", "the number 16", "write true or false"),
        ("requiredCharDevices: on", "requiredCharDevices", "true", 'write it as a list: ["on"]'),
        ("rdmaHcaMax: 1e3", "rdmaHcaMax", "the number 1000", "write 1000"),
        ("rdmaHcaMax: 1.0e+3", "rdmaHcaMax", "", "write 1000"),
        ("rdmaHcaMax: 1_000", "rdmaHcaMax", "the number 1000", "write 1000"),
        ("rdmaHcaMax: 0x10", "rdmaHcaMax", "the number 16", "write 16"),
        ("rdmaHcaMax: 010", "rdmaHcaMax", "the number 8", "write 8"),
        ("rdmaHcaMax: 0o17", "rdmaHcaMax", "the number 15", "write 15"),
        ("rdmaHcaMax: 0b11", "rdmaHcaMax", "the number 3", "write 3"),
        ("rdmaHcaMax: 1:30", "rdmaHcaMax", "the number 90", "write 90"),
        ("resourcePrefix: 2026-12-01", "resourcePrefix", "a date", 'in quotes: "2026-12-01"'),
        ("resourcePrefix: 2026-13-45", "resourcePrefix", "a date or a number", 'in quotes: "2026-13-45"'),
    ],
)
def test_scalars_that_readers_of_yaml_disagree_about(lines: str, path: str, reading: str, remedy: str) -> None:
    (problem,) = problems(pool(lines))
    assert problem.path == f"configList[0].{path}"
    assert problem.line == 4
    assert reading in problem.message
    assert remedy in problem.hint


@pytest.mark.parametrize(
    ("key", "value", "message", "remedy"),
    [
        ("vendors", "0x15b3", "the number 5555", 'in quotes: "0x15b3"'),
        ("deviceIDs", "1017", "1017 is a number", 'in quotes: "1017"'),
        ("deviceIDs", "0017", "the number 15", 'in quotes: "0017"'),
        ("deviceIDs", "017", "the number 15", "write four hex digits"),
        ("deviceIDs", "0089", "the number 89", 'in quotes: "0089"'),
        ("deviceIDs", "10e5", "the number 1000000", 'in quotes: "10e5"'),
        ("pciAddresses", "0000:17:00.0", "the number 1020.0", 'in quotes: "0000:17:00.0"'),
        ("ifNames", "on", "true", 'in quotes: "on"'),
        ("ifNames", "null", "is null", ""),
        ("rdmaDevices", "1.5", "1.5 is a number", 'in quotes: "1.5"'),
    ],
)
def test_ids_without_quotes(key: str, value: str, message: str, remedy: str) -> None:
    (problem,) = problems(f"configList:\n- resourceName: hca\n  selectors:\n    {key}:\n    - {value}\n")
    assert problem.path == f"configList[0].selectors.{key}[0]"
    assert problem.line == 5
    assert message in problem.message
    assert remedy in problem.hint


def test_the_same_in_quotes_is_text() -> None:
    found = parse(
        "configList:\n- resourceName: hca\n  selectors: "
        """{vendors: ["0x15b3"], deviceIDs: ['0017', "10e5"], pciAddresses: ["0000:17:00.0"], ifNames: ["on"]}\n"""
    )
    assert found.pools[0].selectors.device_ids == ("0017", "10e5")
    assert found.pools[0].selectors.pci_addresses == ("0000:17:00.0",)


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_true_is_true_to_all_readers(word: str) -> None:
    assert parse(pool(f"cdi: {word}")).pools[0].cdi


@pytest.mark.parametrize("value", [".nan", "-.inf", "on"])
def test_no_remedy_is_refused_in_its_turn(value: str) -> None:
    (problem,) = problems(f"health: {{pollInterval: {value}}}\n" + pool(""))
    assert problem.path == "health.pollInterval"
    assert problem.hint in ("write a number between 0.1 and 3600", "write a number")


def test_a_mapping_that_is_a_flag() -> None:
    (problem,) = problems("health: on\n" + pool(""))
    assert (problem.path, problem.hint) == ("health", "write a mapping")


@pytest.mark.parametrize("lines", ["rdmaDevices: [*]", "rdmaDevices: [*_bond_0]", "rdmaDevices:\n    - *"])
def test_a_star_without_quotes_is_an_alias_to_yaml(lines: str) -> None:
    (problem,) = problems(f"configList:\n- resourceName: hca\n  selectors:\n    {lines}\n")
    assert problem.line in (4, 5)
    assert 'put a text that begins with * in quotes: "*"' in problem.hint


@pytest.mark.parametrize(
    ("value", "hint"),
    [("y", "write true or false"), ('"True"', "write true, without quotes"), ("maybe", "true or false")],
)
def test_quotes_are_spoken_of_only_where_they_are_the_mistake(value: str, hint: str) -> None:
    (problem,) = problems(pool(f"cdi: {value}"))
    assert problem.hint.endswith(hint)


def test_on_as_a_key_is_text() -> None:
    (problem,) = problems(pool("on: 1"))
    assert problem.path == "configList[0].on"


def test_a_null_document_has_no_pool() -> None:
    for text in ("null", "~", "# nothing\n", "---\n"):
        (problem,) = problems(text)
        assert problem.path == "configList"


# --- files that are wrong as a whole --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("", 0, "is empty", "configList"),
        (" \n\t\n", 0, "is empty", "configList"),
        ('{"configList": []} x', 1, "more text after the end", "one document"),
        ('{"a": 1}\n{"b": 2}', 2, "more text after the end", "one document"),
        ('{"configList": [\n  {"resourceName": "hca"\n', 3, "is not JSON", "comma"),
        ('{"configList": [] // all\n}', 1, "is not JSON", "comma"),
        ('{"rdmaHcaMax": NaN, "a": {', 0, "is not JSON: NaN is no JSON number", ""),
        ("configList:\n\t- a: 1", 2, "is not YAML", "not with tabs"),
        ("configList:\n- a: [1\n- b: 2", 3, "is not YAML", ""),
        ("configList: 'x", 1, "is not YAML", ""),
        ("a: 1\n---\nb: 2\n", 2, "more than one YAML document", "keep the one"),
        ("a: !!python/object:os.system x", 1, "is not YAML", ""),
        ("a: !!int x", 0, "", ""),
        ("? [a]\n: 1", 1, "a key is a list", ""),
        ("a: \x07", 1, "U+0007", "remove"),
        ("[" * 100000, 0, "nested too deeply", ""),
        ("- " * 100000, 0, "nested too deeply", ""),
        ("apiVersion: apps/v1\nkind: DaemonSet\n", 0, 'of kind "DaemonSet"', "ConfigMap"),
        ("kind: ConfigMap\ndata: {}\n", 2, "holds no file", "config.json"),
        ("kind: ConfigMap\n", 1, "holds no file", "config.json"),
        ("kind: ConfigMap\ndata: {a.json: '', b.yaml: ''}\n", 2, "2 files that could be", "config.json"),
        ("kind: ConfigMap\ndata:\n  config.json: {a: 1}\n", 3, "must be text, not a mapping", "config.json: |"),
        ("a: 1\nrdmaSharedDevicePlugin: {deploy: true}\n", 2, "network operator", "the JSON with configList"),
        ("image: x\nconfig: 5\n", 2, "must be a mapping, not a number", "configList under it"),
        ("image: x\nconfig:\n", 2, "must be a mapping, not null", "configList under it"),
    ],
)
def test_files_that_are_wrong_as_a_whole(text: str, line: int, message: str, hint: str) -> None:
    problem = problems(text)[0]
    assert message in problem.message
    assert hint in problem.hint
    assert problem.line == line or not message


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"configList:\n- resourceName: \xff\n", 2, "is not UTF-8: byte 0xff"),
        ("{}".encode("utf-16"), 0, "UTF-16"),
        (b"\x00\x01", 1, "U+0000"),
    ],
)
def test_files_that_are_no_text(content: bytes, line: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(ConfigInvalid) as caught:
        config_file.load(tmp_path / "config")
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.line == line


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('{"configList": [\n {"resourceName": "a",\n  "resourceName": "b", "devices": ["ib0"]}]}', "resourceName", 3),
        ("configList:\n- resourceName: a\n  resourceName: b\n  devices: [ib0]\n", "resourceName", 3),
        ("configList:\n- resourceName: a\n  devices: [ib0]\n  devices: [ib1]\n", "devices", 4),
        ("configList:\n- resourceName: a\n  devices: [ib0]\n  Devices: [ib1]\n", "Devices", 4),
    ],
)
def test_keys_that_are_given_twice(text: str, path: str, line: int) -> None:
    """Today's plugin takes the last one without a word."""
    (problem,) = problems(text)
    assert problem.path == f"configList[0].{path}"
    assert problem.message == "is given twice"
    assert problem.line == line


def test_aliases_can_not_blow_a_file_up() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert problems("\n".join([*lines, "configList: *a29"]))
    merges = ["m0: &m0 {k: 1}"] + [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 30)]
    assert problems("\n".join(merges))


def test_a_list_inside_itself_ends() -> None:
    assert problems("configList: &a [*a]")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_file_full_of_mistakes_is_read_within_seconds(form: str) -> None:
    """20,000 unknown keys: a file of another program under the wrong name. Each used to cost 4 ms."""
    keys = {f"vendors{number}": number for number in range(20000)}
    entry = {"resourceName": "hca", "devices": ["ib0"], **keys}
    text = json.dumps({"configList": [entry]})
    if form == "yaml":
        text = "configList:\n-\n" + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in entry.items())
    start = time.monotonic()
    found = problems(text)
    assert time.monotonic() - start < 20
    assert len(found) == 20000
    assert "did you mean vendors?" in found[0].hint
    assert found[-1].line == (0 if form == "json" else 20004)


# --- where problems are ---------------------------------------------------------------------------------------------


def test_lines_of_yaml_json_helm_values_and_configmaps() -> None:
    wrong = '{"configList": [{\n"resourceName": "_a",\n"devices": [\n"ib*"]}]}'
    places = [("configList[0].resourceName", 2), ("configList[0].devices[0]", 4)]
    assert [(problem.path, problem.line) for problem in problems(wrong)] == places

    indented = "\n".join("    " + line for line in wrong.splitlines())
    configmap = f"kind: ConfigMap\ndata:\n  config.json: |\n{indented}\n"
    assert [(problem.path, problem.line) for problem in problems(configmap)] == [
        (path, line + 3) for path, line in places
    ]
    helm = f"x: 1\nconfig:\n{indented}\n"
    assert [(problem.path, problem.line) for problem in problems(helm)] == [(path, line + 2) for path, line in places]

    # Where the config is one escaped text, its line is all there is.
    escaped = json.dumps({"kind": "ConfigMap", "data": {"config.json": wrong}}, indent=1)
    assert [(problem.path, problem.line) for problem in problems(escaped)] == [(path, 4) for path, _unused in places]


def test_what_is_missing_is_told_where_it_is_missing() -> None:
    found = problems("configList:\n- resourceName: a\n  devices: [x]\n-\n  rdmaHcaMax: 5\n  devices: [y]\n")
    assert [(problem.path, problem.line) for problem in found] == [("configList[1].resourceName", 5)]


def test_all_kinds_of_problems_come_together_in_file_order() -> None:
    found = problems(
        "periodicUpdateInterval: 1e2\n"
        "configList:\n"
        "- resourceName: _hca\n"
        "  rdmaHcaMaximum: 1000\n"
        "  selectors:\n"
        "    vendors: [0x15b3, 1017]\n"
        "    linkTypes: [ethernot]\n"
        "  nccl: true\n"
        "  nccl: no\n"
    )
    assert [(problem.path, problem.line) for problem in found] == [
        ("periodicUpdateInterval", 1),
        ("configList[0].resourceName", 3),
        ("configList[0].rdmaHcaMaximum", 4),
        ("configList[0].selectors.vendors[0]", 6),
        ("configList[0].selectors.vendors[1]", 6),
        ("configList[0].selectors.linkTypes[0]", 7),
        ("configList[0].nccl", 9),
        ("configList[0].nccl", 9),
    ]


# --- files that can't be read ---------------------------------------------------------------------------------------


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b" " * (1024 * 1024 + 1))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for file, reason in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "is a directory"),
        (tmp_path / "big" / "x", "can't be read: Not a directory"),
        (loop, "can't be read: Too many levels of symbolic links"),
        (big, "has more than 1048576 bytes"),
        ("/dev/zero", "has more than 1048576 bytes"),
        ("a\0b", "can't be read: embedded null byte"),
    ):
        with pytest.raises(config_file.ConfigUnreadable, match=reason):
            config_file.load(file)


# --- properties -----------------------------------------------------------------------------------------------------

_keys = ["configList:", "resourceName: a", "selectors:", "kind: ConfigMap\n", "data:\n", "config: "]
_marks = [
    "\n",
    "- ",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    '"',
    "'",
    "&a ",
    "*a",
    "<<: ",
    "? ",
    ": ",
    "---\n",
    "|\n",
    "\t",
    "\\",
]
_tags = ["!!int ", "!!map ", "!!seq ", "!!timestamp ", "!!binary ", "!!set ", "!!omap "]
_values = ["=", "~", "on", "0x_", "0b", "1e400", "190:20:30.15", "2026-02-30", "\ud800", "é"]
_words = st.sampled_from([*_keys, *_marks, *_tags, *_values])


@settings(deadline=None)
@given(st.lists(_words | st.text(max_size=3), max_size=25).map("".join))
def test_any_text_is_taken_or_refused_in_words(text: str) -> None:
    assert all(str(problem).isprintable() for problem in problems_of(text))


def problems_of(text: str) -> tuple[Problem, ...]:
    try:
        parse(text)
    except ConfigInvalid as error:
        return error.problems
    return ()


@settings(deadline=None)
@given(good_documents)
def test_json_and_yaml_mean_the_same_and_what_is_printed_can_be_read_again(document: dict[str, Any]) -> None:
    found = parse(json.dumps(document))
    assert parse(strict_yaml.dump(document)) == found
    normalised = config.to_document(found)
    assert parse(strict_yaml.dump(normalised)) == found
    assert yaml.safe_load(strict_yaml.dump(normalised)) == normalised


def test_json_is_read_without_loading_yaml(tmp_path: Path) -> None:
    """The plugin's mounted config.json: start time matters."""
    (tmp_path / "config.json").write_text(json.dumps(GOOD))
    code = (
        "import sys; from rdma_dp import config_file; config_file.load(sys.argv[1]);"
        "assert not {'yaml', 'grpc', 'prometheus_client'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "config.json")], check=True)


def test_ambiguous_scalars_are_still_text() -> None:
    value = documents.read("a: 0x15b3").value
    assert value == {"a": "0x15b3"}
    assert isinstance(value["a"], documents.Ambiguous)
