# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that others made. Ours carry a label; nothing else is overwritten or removed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: strangers
short_description: Names the objects that somebody else manages
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Looks at the label C(app.kubernetes.io/managed-by) of objects.
options:
  _input:
    description: Objects as the API shows them.
    type: list
    elements: dict
    required: true
  manager:
    description: The label's value on our objects.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse to overwrite objects of others
  ansible.builtin.assert:
    that: found.resources | lingjun.rdma.strangers('lingjun.rdma') == []
"""

RETURN = r"""
_value:
  description: Kind and name of each object that has another manager or none.
  type: list
  elements: str
"""

from typing import Any, Callable, Dict, List, Mapping, Sequence

_LABEL = "app.kubernetes.io/managed-by"


def strangers(objects: Sequence[Mapping[str, Any]], manager: str) -> List[str]:
    """Kind and name of every object that ``manager`` does not manage."""
    return [
        f"{item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in objects
        if (item["metadata"].get("labels") or {}).get(_LABEL) != manager
    ]


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"strangers": strangers}
