# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma-dp validate``: is the config good; and if so, what does it say with every default spelled out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rdma_dp import config_file
from rdma_dp.commands import GOOD, NO, Answer
from rdma_dp.core import config
from rdma_dp.core.model import Config
from rdma_dp.core.problems import ConfigInvalid, Problem


def run(file: Path, output: str) -> Answer:
    """``output`` is ``text`` or ``json``. Raises ConfigUnreadable."""
    try:
        found = config_file.load(file)
    except ConfigInvalid as error:
        result = _json(error.problems) if output == "json" else _list(file, error.problems)
        count = len(error.problems)
        return Answer(NO, result, (f"{file} is not valid: {count} problem{'s' if count > 1 else ''}",))
    return Answer(GOOD, _json((), found) if output == "json" else _yaml(found))


def _list(file: Path, problems: tuple[Problem, ...]) -> str:
    """One problem a line, its remedy indented below it."""
    lines = []
    for problem in problems:
        place = f"{file}:{problem.line}: " if problem.line else f"{file}: "
        lines.append(place + (f"{problem.path}: " if problem.path else "") + problem.message)
        if problem.hint:
            lines.append(f"    {problem.hint}")
    return "\n".join(lines) + "\n"


def _json(problems: tuple[Problem, ...], found: Config | None = None) -> str:
    document: dict[str, Any] = {
        "valid": found is not None,
        "problems": [{"path": problem.path, "message": problem.message, "hint": problem.hint} for problem in problems],
        "config": config.to_document(found) if found else None,
    }
    return json.dumps(document, indent=2) + "\n"


def _yaml(found: Config) -> str:
    from rdma_dp import strict_yaml

    return strict_yaml.dump(config.to_document(found))
