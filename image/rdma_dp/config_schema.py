# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema of the config file, made of the parser's own tables: editors complete and check with it.

It describes the normalised spelling; the parser takes more (other cases of keys, ``0x15B3``) and checks more (names
against each other). ``python -m rdma_dp.config_schema > image/config.schema.json`` writes the shipped file anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rdma_dp.core.config_keys import FILE, HEALTH, POOL
from rdma_dp.core.config_selectors import READERS as SELECTORS
from rdma_dp.core.config_values import Reader

_SHARED_ONLY = ("rdmaHcaMax", "rdmaHcaScope", "healthPolicy")


def schema() -> dict[str, Any]:
    """The schema as plain values, draft 2020-12."""
    filled = {"minItems": 1}
    selectors = _object(SELECTORS) | {"anyOf": [{"required": [key], "properties": {key: filled}} for key in SELECTORS]}
    pool = _object(POOL, selectors=selectors) | {
        "required": ["resourceName"],
        "oneOf": [{"required": ["selectors"]}, {"required": ["devices"], "properties": {"devices": filled}}],
        "if": {"properties": {"mode": {"const": "exclusive"}}, "required": ["mode"]},
        "then": {"properties": dict.fromkeys(_SHARED_ONLY, False)},
    }
    pools = {"type": "array", "minItems": 1, "items": pool}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Config of rdma-dp",
        **_object(FILE, health=_object(HEALTH), configList=pools),
        "required": ["configList"],
    }


def _object(readers: Mapping[str, Reader], **more: dict[str, Any]) -> dict[str, Any]:
    properties = {key: dict(reader.schema) for key, reader in readers.items()} | more
    return {"type": "object", "additionalProperties": False, "properties": properties}


def text() -> str:
    """The schema as it is shipped."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(text(), end="")
