# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that offer another number of devices than the config of their mode promises."""

from __future__ import annotations

DOCUMENTATION = r"""
name: off_promise
short_description: Names the nodes that offer another number of devices than their profile says
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Compares what M(lingjun.rdma.allocatable_info) found with what P(lingjun.rdma.profiles#filter) promises.
  - Nodes without a profile, and profiles whose number depends on the NICs of a node, are left out.
options:
  _input:
    description: RV(lingjun.rdma.allocatable_info#module:nodes).
    type: list
    elements: dict
    required: true
  profiles:
    description: The result of P(lingjun.rdma.profiles#filter).
    type: list
    elements: dict
    required: true
  resource:
    description: The full name of the resource.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Name the nodes that have not taken the new configuration yet
  ansible.builtin.debug:
    msg: "{{ found.nodes | lingjun.rdma.off_promise(device_plugin_profiles | lingjun.rdma.profiles, 'rdma/hca') }}"
"""

RETURN = r"""
_value:
  description: A sentence, without its end, for each such node.
  type: list
  elements: str
"""

from typing import Any, Callable, Dict, List, Mapping, Sequence


def off_promise(nodes: Sequence[Mapping[str, Any]], profiles: Sequence[Mapping[str, Any]], resource: str) -> List[str]:
    """A sentence for each node that offers another number than its profile says."""
    promised = {profile["name"]: profile["resources"].get(resource) for profile in profiles}
    found = []
    for node in nodes:
        have, want = node["allocatable"].get(resource, 0), promised.get(node["mode"])
        if want is not None and have != want:
            found.append(f"{node['name']} offers {have}, its profile {node['mode']} says {want}")
    return found


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"off_promise": off_promise}
