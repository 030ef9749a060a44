# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""argument_specs say what defaults/main.yml does, for every role; texts from the command line are cast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.roles.conftest import CHECKOUT, Roles

# Keys of tasks and rules whose text is a message.
SHOWN = ("name", "msg", "fail_msg", "say")
ROLES = ("device_plugin", "node_labels", "rdma_test", "uninstall", "verify")


def load(role: str, path: str) -> Any:
    return yaml.safe_load((CHECKOUT / "roles" / role / path).read_text())


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_documented_and_no_other(role: str) -> None:
    defaults = load(role, "defaults/main.yml")
    for entry in load(role, "meta/argument_specs.yml")["argument_specs"].values():
        documented = {name: option.get("default") for name, option in entry["options"].items()}
        shared = {name for name in documented if name.startswith("lingjun_rdma_")}
        assert set(documented) - shared == set(defaults)
        # Some follow other variables, which a specification can't say in its own terms.
        literal = {name for name, value in defaults.items() if "{{" not in str(value)}
        assert {name: documented[name] for name in literal} == {name: defaults[name] for name in literal}


@pytest.mark.parametrize("role", ROLES)
def test_readme_names_the_role(role: str) -> None:
    text = (CHECKOUT / "roles" / role / "README.md").read_text()
    assert text.startswith(f"# Role `{role}`\n")
    assert f"lingjun.rdma.{role}" in text


def test_default_profiles_are_what_the_specification_shows(roles: Roles) -> None:
    spec = load("device_plugin", "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert roles.value("device_plugin", "device_plugin_profiles") == spec["device_plugin_profiles"]["default"]


def texts(value: Any, key: str = "") -> Iterator[str]:
    """All texts in a YAML document but those that are only shown to the user."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, key)
    elif isinstance(value, str) and key not in SHOWN:
        yield value


@pytest.mark.parametrize("role", ROLES)
def test_booleans_and_numbers_are_cast_where_they_are_used(role: str) -> None:
    """-e x=false passes a specification of type bool and stays the text "false", which is true."""
    options = load(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    folder = CHECKOUT / "roles" / role
    documents = [
        yaml.safe_load(path.read_text())
        for name in ("tasks", "vars", "defaults")
        for path in folder.glob(f"{name}/*.yml")
    ]
    code = [*texts(documents), *(path.read_text() for path in folder.glob("templates/*.yml.j2"))]
    uncast = [
        f"{name}: {text}"
        for name, option in options.items()
        if option["type"] in ("bool", "int")
        for text in code
        if re.search(rf"\b{name}\b(?! *\| *{option['type']}\b)", text)
    ]
    assert uncast == []
