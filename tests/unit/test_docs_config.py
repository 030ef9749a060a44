# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/config.md names every field of the config with its default, and every key that the commands print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rdma_dp import cli, config_schema
from rdma_dp.core import config
from tests import nics

PAGE = Path(__file__).resolve().parents[2] / "docs/config.md"
TEXT = PAGE.read_text()


def rows() -> Iterator[list[str]]:
    """The cells of each row of the page's tables."""
    for line in TEXT.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def names(value: Any) -> Iterator[str]:
    """All keys of a JSON document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner)


def test_every_field_is_there() -> None:
    fields = {cells[0].strip("`") for cells in rows()}
    assert set(config_schema.DESCRIPTIONS) <= fields


def test_defaults_are_those_of_the_schema() -> None:
    schema = config_schema.schema()["properties"]
    pool = schema["configList"]["items"]["properties"]
    fields = {**schema, **schema["health"]["properties"], **pool}
    told = {cells[0].strip("`"): cells[1].strip("`") for cells in rows()}
    for key, entry in fields.items():
        if "default" in entry:
            assert yaml.safe_load(told[key]) == entry["default"], key


def test_every_key_of_discover_and_validate_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nics.build("h20", tmp_path)
    file = tmp_path / "config.json"
    file.write_text('{"configList": [{"resourceName": "hca", "selectors": {"rdmaDevices": ["*"]}}]}')
    machine = ["--sysfs", str(tmp_path / "sys"), "--dev", str(tmp_path / "dev")]
    assert cli.main(["discover", *machine, "--config", str(file), "--format", "json"]) == 0
    found = set(names(json.loads(capsys.readouterr().out)))
    file.write_text('{"configList": []}')
    assert cli.main(["validate", "--config", str(file), "--format", "json"]) == 1
    found |= set(names(json.loads(capsys.readouterr().out)))
    assert found <= set(re.findall(r"`([a-z_]+)`", TEXT))


def test_its_example_is_a_config() -> None:
    (example,) = re.findall(r"```yaml\n(periodic.*?)```", TEXT, re.DOTALL)
    assert config.parse(yaml.safe_load(example)).pools[0].resource == "rdma/hca"
