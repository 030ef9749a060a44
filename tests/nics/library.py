# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds machines by name: files of machines/, captures of captures/, or any file in one of the two forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from . import describe
from .model import Machine

_HERE = Path(__file__).parent
# What the notes of a capture say in words, as facts; keyed by the capture's number.
_AMENDMENTS = _HERE / "captures" / "amendments.yml"


def names() -> list[str]:
    """All that `machine` knows by name, the machine files first."""
    return [
        path.stem
        for folder, kind in (("machines", "yml"), ("captures", "json"))
        for path in sorted((_HERE / folder).glob(f"*.{kind}"))
    ]


def machine(name_or_path: str | Path) -> Machine:
    """The machine of that name (``07-bond-over-two-cards-no-lag``), or of that file. ValueError if there is none."""
    path = _find(name_or_path)
    if path.suffix == ".json":
        capture = json.loads(path.read_text())
        facts = _amended(capture["facts"], path)
        return describe.machine(path.stem, {"description": capture["kind"], **facts}, capture["source"])
    return describe.machine(path.stem, yaml.safe_load(path.read_text()))


def _find(name_or_path: str | Path) -> Path:
    candidates = (
        Path(name_or_path),
        _HERE / "machines" / f"{name_or_path}.yml",
        _HERE / "captures" / f"{name_or_path}.json",
    )
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise ValueError(f"no machine {str(name_or_path)!r}: it is one of {', '.join(names())}, or a file")
    return found


def _amended(facts: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The facts, amendments put in. A NIC is named by its place in the list or its RDMA device; "all" is each."""
    amendment = yaml.safe_load(_AMENDMENTS.read_text()).get(path.name.split("-")[0], {})
    of_nics = amendment.pop("nics", {})
    kept = amendment.pop("keep", None)
    nics = []
    for index, nic in enumerate(facts["nics"] or []):
        said = {**of_nics.get("all", {}), **of_nics.get(index, {}), **of_nics.get(nic.get("rdma_device"), {})}
        if kept is None or index in kept:
            nics.append({**nic, **said})
    return {**facts, **amendment, "nics": nics}
