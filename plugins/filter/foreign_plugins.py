# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds other device plugins that offer our resource. Two of them on one node take it from each other by turns."""

from __future__ import annotations

DOCUMENTATION = r"""
name: foreign_plugins
short_description: Finds DaemonSets of other device plugins that offer a resource
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Knows ACK's add-on C(ack-rdma-dp-ds) and the shared device plugin C(rdma-shared-dp-ds) by their names and images.
  - Of other DaemonSets, finds those that name the resource in their arguments, environment or ConfigMaps.
options:
  _input:
    description: DaemonSets as the API shows them.
    type: list
    elements: dict
    required: true
  resource:
    description: The full name of the resource.
    type: str
    required: true
  configmaps:
    description:
      - The ConfigMaps that C(configmaps) of an earlier result names, as the API shows them.
      - Without it, C(offers) of a plugin that has ConfigMaps is null.
    type: list
    elements: dict
seealso:
  - plugin: lingjun.rdma.device_plugin
    plugin_type: role
"""

EXAMPLES = r"""
- name: Name other plugins that offer rdma/hca
  ansible.builtin.debug:
    msg: "{{ daemonsets.resources | lingjun.rdma.foreign_plugins(resource='rdma/hca') }}"
"""

RETURN = r"""
_value:
  description:
    - One dictionary for each DaemonSet that mounts kubelet's device plugin directory or is known by name.
    - C(name) has its namespace in front. C(offers) is V(true), V(false), or null when only its ConfigMaps can tell.
    - C(why) is a sentence. C(configmaps) is a list of C(namespace) and C(name).
  type: list
  elements: dict
"""

import json
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import yaml
from ansible_collections.lingjun.rdma.plugins.module_utils._names import PLUGIN_SELECTOR

# Anybody may have called a plugin rdma-dp, so the name alone does not make it ours.
_OURS = (PLUGIN_SELECTOR, "app.kubernetes.io/managed-by=lingjun.rdma")
ACK_DEFAULT = "rdma/hca"  # of the add-on's customResourceName (ACK page)
_ACK_NAMES = ("ack-rdma-dp-ds",)
_SHARED_PLUGIN = re.compile(r"rdma-shared-dp|k8s-rdma-shared-dev(ice)?-plugin|rdma-shared-device-plugin")
_KUBELET_DIRECTORIES = ("/device-plugins", "/plugins_registry", "/kubelet")
# Of ConfigMaps: (namespace, name) to the texts of its files.
Texts = Mapping[Tuple[str, str], Sequence[str]]
# How a plugin's config names its pools, and the prefix where it names none.
_POOL_LISTS = {"configList": "rdma", "resourceList": "intel.com"}


def foreign_plugins(
    daemonsets: Sequence[Mapping[str, Any]], resource: str, configmaps: Optional[Sequence[Mapping[str, Any]]] = None
) -> List[Dict[str, Any]]:
    """The DaemonSets that could offer ``resource``, judged; ``configmaps`` is None before they were read."""
    texts: Optional[Texts] = None
    if configmaps is not None:
        texts = {
            (str(item["metadata"]["namespace"]), str(item["metadata"]["name"])): list((item.get("data") or {}).values())
            for item in configmaps
        }
    found = [_judge(item, resource, texts) for item in daemonsets if not _ours(item)]
    return [judgement for judgement in found if judgement is not None]


def _judge(daemonset: Mapping[str, Any], resource: str, texts: Optional[Texts]) -> Optional[Dict[str, Any]]:
    metadata, pod = daemonset["metadata"], daemonset["spec"]["template"]["spec"]
    namespace, name = str(metadata["namespace"]), str(metadata["name"])
    ack = name in _ACK_NAMES
    shared = bool(_SHARED_PLUGIN.search(name) or any(map(_SHARED_PLUGIN.search, _images(pod))))
    if not (ack or shared or _mounts_kubelet(pod)):
        return None
    wanted = [(namespace, configmap) for configmap in _configmaps(pod)]
    offered = {name for place in wanted for text in (texts or {}).get(place, ()) for name in _resources(text)}

    offers: Optional[bool] = False
    why = ""
    if any(map(_naming(resource).search, _words(pod))):
        offers, why = True, f"its settings name {resource}"
    elif resource in offered:
        offers, why = True, f"its ConfigMap names {resource}"
    elif ack and resource == ACK_DEFAULT:
        offers, why = True, f"it is ACK's add-on ack-rdma-device-plugin, which offers {resource}"
    elif wanted and texts is None:
        offers = None
    elif shared and not offered:
        offers, why = True, "it is the shared device plugin, and its configuration can't be read"
    return {
        "name": f"{namespace}/{name}",
        "offers": offers,
        "why": why,
        "configmaps": [{"namespace": place[0], "name": place[1]} for place in wanted],
    }


def _naming(resource: str) -> "re.Pattern[str]":
    """Finds the resource's name in a text, not a longer name of which it is a part."""
    return re.compile(rf"(?<![\w./-]){re.escape(resource)}(?![\w.-])")


def _ours(daemonset: Mapping[str, Any]) -> bool:
    labels = daemonset["metadata"].get("labels") or {}
    return {f"{key}={value}" for key, value in labels.items()}.issuperset(_OURS)


def _containers(pod: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    return [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]


def _images(pod: Mapping[str, Any]) -> List[str]:
    return [str(container.get("image", "")) for container in _containers(pod)]


def _words(pod: Mapping[str, Any]) -> Iterator[str]:
    """Everything by which a resource could be named on the command line or in the environment."""
    for container in _containers(pod):
        yield from map(str, [*(container.get("command") or []), *(container.get("args") or [])])
        yield from (str(variable.get("value", "")) for variable in container.get("env") or [])


def _mounts_kubelet(pod: Mapping[str, Any]) -> bool:
    paths = [str((volume.get("hostPath") or {}).get("path", "")) for volume in pod.get("volumes") or []]
    return any(path.rstrip("/").endswith(_KUBELET_DIRECTORIES) for path in paths)


def _configmaps(pod: Mapping[str, Any]) -> List[str]:
    volumes = pod.get("volumes") or []
    return [str(volume["configMap"]["name"]) for volume in volumes if (volume.get("configMap") or {}).get("name")]


def _resources(text: str) -> Iterator[str]:
    """The full resource names in a device plugin's config; none in other texts."""
    try:
        document = json.loads(text)
    except ValueError:
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError:
            return
    if not isinstance(document, Mapping):
        return
    for key, default in _POOL_LISTS.items():
        pools = document.get(key)
        for pool in pools if isinstance(pools, list) else []:
            if isinstance(pool, Mapping) and pool.get("resourceName"):
                yield f"{pool.get('resourcePrefix') or default}/{pool['resourceName']}"


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"foreign_plugins": foreign_plugins}
