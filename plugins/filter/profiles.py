# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the profiles of role device_plugin with the plugin's own code, before anything is sent to a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: profiles
short_description: Checks the plugin's profiles and tells what each offers
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Reads the profiles of role P(lingjun.rdma.device_plugin#role) as the plugin itself will read their configurations.
  - So mistakes come out before anything is changed, all at once and in the plugin's own words.
options:
  _input:
    description: From the name of a profile to its settings, of which C(config) is the plugin's configuration.
    type: dict
    required: true
seealso:
  - plugin: lingjun.rdma.device_plugin
    plugin_type: role
"""

EXAMPLES = r"""
- name: Refuse a configuration with mistakes
  ansible.builtin.assert:
    that: profiles | map(attribute='problems') | flatten == []
    fail_msg: "{{ profiles | map(attribute='problems') | flatten | join(' ') }}"
  vars:
    profiles: "{{ device_plugin_profiles | lingjun.rdma.profiles }}"
"""

RETURN = r"""
_value:
  description:
    - One dictionary a profile, sorted by name, with C(name) and C(config) as they were given.
    - C(problems) are sentences; there are none for a good profile.
    - C(config_hash) is the hash that the plugin shows in its metric rdma_dp_config_info.
    - >-
      C(resources) goes from each resource's full name to the number of devices that a node with NICs offers, null where
      that depends on its NICs.
  type: list
  elements: dict
"""

import re
from typing import Any, Callable, Dict, List, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.lingjun.rdma.plugins.module_utils._names import DRAINING, PLUGIN_PREFIX
from ansible_collections.lingjun.rdma.plugins.module_utils.rdma_core import config as plugin_config
from ansible_collections.lingjun.rdma.plugins.module_utils.rdma_core.model import SHARED, PoolConfig
from ansible_collections.lingjun.rdma.plugins.module_utils.rdma_core.problems import kind, show

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# The DaemonSet's name is a label's value too.
_LONGEST_NAME = 63 - len(PLUGIN_PREFIX)


def profiles(value: Any) -> List[Dict[str, Any]]:
    """What is wrong with each profile, and what each offers."""
    if not isinstance(value, Mapping) or not value:
        raise AnsibleFilterError(
            f"The profiles are {kind(value) if value else 'empty'}; give a mapping like"
            " {shared: {config: {configList: [{resourceName: hca, selectors: {rdmaDevices: ['*']}}]}}}."
        )
    return [_profile(name, value[name]) for name in sorted(value, key=str)]


def _profile(name: Any, settings: Any) -> Dict[str, Any]:
    problems = [
        f"Profile {show(name)}: {problem}." for problem in (*_name_problems(name), *_setting_problems(settings))
    ]
    document = settings.get("config") if isinstance(settings, Mapping) else None
    report: Dict[str, Any] = {
        "name": str(name),
        "problems": problems,
        "config": document,
        "config_hash": "",
        "resources": {},
    }
    if problems:
        return report
    try:
        parsed = plugin_config.parse(document)
    except plugin_config.ConfigInvalid as error:
        report["problems"] = [f"Profile {name}: {problem}." for problem in error.problems]
        return report
    report["config_hash"] = plugin_config.digest(parsed)
    report["resources"] = {pool.resource: _devices_of_a_node(pool) for pool in parsed.pools}
    return report


def _name_problems(name: Any) -> List[str]:
    if not isinstance(name, str):
        return [f"a name must be text, not {kind(name)}; put it in quotes"]
    if name == DRAINING:
        return ["this name is taken: it marks a node whose mode is being changed; choose another one"]
    if len(name) > _LONGEST_NAME or not _LABEL.fullmatch(name):
        return [
            f"a name has at most {_LONGEST_NAME} lower-case letters, digits and '-', and begins and ends with"
            " a letter or digit"
        ]
    return []


def _setting_problems(settings: Any) -> List[str]:
    if not isinstance(settings, Mapping):
        return [f"must be a mapping with the key config, not {kind(settings)}"]
    unknown = [show(key) for key in settings if key != "config"]
    problems = [f"{', '.join(unknown)} is no setting of a profile; it has config only"] if unknown else []
    if settings.get("config") is None:
        problems.append("config is missing: the plugin's configuration, with configList")
    return problems


def _devices_of_a_node(pool: PoolConfig) -> Any:
    """How many devices a node with a usable NIC offers (DESIGN section 4); None where it depends on the NICs."""
    return pool.rdma_hca_max if pool.mode == SHARED and pool.rdma_hca_scope == "node" else None


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"profiles": profiles}
