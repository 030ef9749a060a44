# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluates expressions with a role's defaults and vars, as Ansible does. One JSON request a line in, one answer out.

A process of its own, because Ansible's collection loader changes how the whole interpreter imports.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).resolve().parents[3] / "roles"


def evaluate(loader: DataLoader, role: str, given: dict[str, Any], facts: dict[str, Any], expression: str) -> Any:
    """The value of ``expression``; ``given`` is what a user set, ``facts`` what earlier tasks left."""
    path = ROLES / role
    variables: dict[str, Any] = {
        "ansible_search_path": [str(path)],
        "role_path": str(path),
        "ansible_check_mode": False,
    }
    variables |= loader.load_from_file(str(path / "defaults/main.yml"), cache="all", trusted_as_template=True)
    variables |= given
    variables |= loader.load_from_file(str(path / "vars/main.yml"), cache="all", trusted_as_template=True)
    variables |= facts
    return Templar(loader=loader, variables=variables).template(trust_as_template("{{ " + expression + " }}"))


def main() -> None:
    """Answer until the input ends."""
    init_plugin_loader([])
    loader = DataLoader()
    for line in sys.stdin:
        try:
            answer = {"value": evaluate(loader, **json.loads(line))}
            text = json.dumps(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to show it
            text = json.dumps({"error": f"{type(error).__name__}: {error}"})
        print(text, flush=True)


if __name__ == "__main__":
    main()
