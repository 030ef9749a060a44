# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes takes for names, labels and taints, checked before anything is sent. Private to this collection.

The rules are those of k8s.io/apimachinery/pkg/util/validation (IsQualifiedName, IsValidLabelValue, IsDNS1123Subdomain).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def key_problem(key: str) -> str:
    """Why ``key`` is no label key, resource name or taint key; "" when it is one."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return "the part before the slash must be a DNS name in lower case of at most 253 characters"
    if not (len(name) <= 63 and _NAME.fullmatch(name)):
        return "the name must have 1 to 63 letters, digits, '-', '_', '.', and begin and end with a letter or digit"
    return ""


def value_problem(value: str) -> str:
    """Why ``value`` is no label value; "" when it is one. The empty text is one."""
    if value and not (len(value) <= 63 and _NAME.fullmatch(value)):
        return "a value has at most 63 letters, digits, '-', '_', '.', and begins and ends with a letter or digit"
    return ""


def resource_problem(name: str) -> str:
    """Why ``name`` is no extended resource (KUBELET rules 16, 17: a domain, a slash, a name); "" when it is one."""
    domain, slash, _name = name.partition("/")
    if not slash:
        return "an extended resource has a domain and a slash, like rdma/hca"
    if "kubernetes.io" in domain or domain.startswith("requests."):
        return "a domain with kubernetes.io, or beginning with requests., is not for extended resources"
    return key_problem(name)


def labels(raw: Mapping[str, Any], where: str) -> Tuple[Dict[str, Optional[str]], List[str]]:
    """Labels as a playbook gives them, normalised, and what is wrong with them, one sentence each.

    Whole numbers and booleans become their text, as YAML turned an unquoted ``true`` into a boolean. ``None`` stays.
    """
    result: Dict[str, Optional[str]] = {}
    problems = []
    for key, value in raw.items():
        place = f"{where}[{key}]"
        if problem := key_problem(key):
            problems.append(f"{place}: {problem}")
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int):
            value = str(value)
        if value is not None and not isinstance(value, str):
            problems.append(f"{place}: {value!r} is a {type(value).__name__}; put the value in quotes")
            continue
        if value is not None and (problem := value_problem(value)):
            problems.append(f"{place}: {value!r}: {problem}")
        result[key] = value
    return result, problems


def taint_problems(taints: List[Mapping[str, Any]]) -> List[str]:
    """What is wrong with the ``taints`` option, one sentence each."""
    problems = []
    seen = set()
    for index, taint in enumerate(taints):
        place = f"taints[{index}]"
        if problem := key_problem(taint["key"]):
            problems.append(f"{place}.key: {taint['key']!r}: {problem}")
        if problem := value_problem(taint.get("value") or ""):
            problems.append(f"{place}.value: {taint['value']!r}: {problem}")
        effect = taint.get("effect")
        if effect is None and taint["state"] == "present":
            problems.append(f"{place}: a taint that is to be present needs an effect: {', '.join(_EFFECTS)}")
        if (taint["key"], effect) in seen:
            problems.append(f"{place}: {taint['key']} with effect {effect} is listed twice")
        seen.add((taint["key"], effect))
    return problems
