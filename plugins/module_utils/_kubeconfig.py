# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfig files: read, merged as kubectl does, reduced to the one context that is used. Private to this collection.

The kubernetes library ignores files that don't exist and answers malformed ones with TypeError; here each is a
sentence.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils._errors import ConnectionOptionsError

_LISTS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))
# Keys whose value is a path relative to the file that it stands in.
_PATHS = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def read(paths: Iterable[str]) -> Dict[str, Any]:
    """All files that exist, merged: of two entries with one name the first counts, as does the first current-context.

    Raises ConnectionOptionsError when none exists, or one can't be read or is no kubeconfig.
    """
    named = [os.path.expanduser(path) for path in paths if path]
    existing = [path for path in named if os.path.exists(path)]
    if not existing:
        raise ConnectionOptionsError(
            f"The kubeconfig {' and '.join(named)} does not exist; set the option kubeconfig, K8S_AUTH_KUBECONFIG or"
            " KUBECONFIG to the file of your cluster."
        )
    merged: Dict[str, Any] = {name: [] for name, _entry in _LISTS}
    for path in existing:
        document = _load(path)
        _merge(merged, check(document, f"The kubeconfig {path}"), os.path.dirname(os.path.abspath(path)))
    return merged


def _load(path: str) -> Any:
    import yaml  # comes with the kubernetes library, whose absence has its own message

    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise ConnectionOptionsError(
            f"The kubeconfig {path} is no YAML{place}: {getattr(error, 'problem', None) or error}."
        ) from error
    except UnicodeDecodeError as error:
        raise ConnectionOptionsError(f"The kubeconfig {path} is no text file.") from error
    except OSError as error:
        raise ConnectionOptionsError(f"The kubeconfig {path} can't be read: {error.strerror}.") from error


def check(document: Any, source: str) -> Dict[str, Any]:
    """The document when it has the shape of a kubeconfig. ``source`` begins the message otherwise."""
    if not isinstance(document, dict):
        raise ConnectionOptionsError(
            f"{source} holds no kubeconfig: a mapping with clusters, users and contexts is expected."
        )
    for name, entry in _LISTS:
        items = document.get(name) or []
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get(entry) or {}, dict)
            for item in items
        ):
            raise ConnectionOptionsError(
                f"{source} is malformed: {name} must be a list of entries with a name and a {entry}."
            )
    return document


def _merge(merged: Dict[str, Any], document: Mapping[str, Any], directory: str) -> None:
    for name, entry in _LISTS:
        known = {item["name"] for item in merged[name]}
        for item in document.get(name) or []:
            if item["name"] in known:
                continue
            content = dict(item.get(entry) or {})
            for key in _PATHS.get(name, ()):
                if content.get(key):
                    content[key] = os.path.join(directory, str(content[key]))
            if name == "users" and isinstance(content.get("exec"), dict):
                # kubectl resolves a command with a slash against the file's directory; others come from PATH.
                command = str(content["exec"].get("command") or "")
                if os.path.dirname(command):
                    content["exec"] = {**content["exec"], "command": os.path.join(directory, command)}
            merged[name].append({"name": item["name"], entry: content})
    if document.get("current-context") and not merged.get("current-context"):
        merged["current-context"] = document["current-context"]


def select(config: Mapping[str, Any], context: Optional[str], source: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """(cluster, user) of ``context``, or of the current one. The user is empty when the context names none.

    Raises ConnectionOptionsError that lists what there is when a name leads nowhere, or a file named there is missing.
    """
    name = context or config.get("current-context")
    if not name:
        raise ConnectionOptionsError(
            f"{source} has no current-context; set the option context to {_one_of(config, 'contexts')}."
        )
    chosen = _find(config, "contexts", "context", name)
    if chosen is None:
        raise ConnectionOptionsError(f"{source} has no context {name!r}; it has {_one_of(config, 'contexts')}.")
    cluster = _find(config, "clusters", "cluster", chosen.get("cluster"))
    if cluster is None:
        raise ConnectionOptionsError(
            f"{source}: context {name!r} names the cluster {chosen.get('cluster')!r}; there is"
            f" {_one_of(config, 'clusters')}."
        )
    if not cluster.get("server"):
        raise ConnectionOptionsError(f"{source}: cluster {chosen['cluster']!r} has no server.")
    user = _find(config, "users", "user", chosen["user"]) if chosen.get("user") else {}
    if user is None:
        raise ConnectionOptionsError(
            f"{source}: context {name!r} names the user {chosen['user']!r}; there is {_one_of(config, 'users')}."
        )
    for key in _FILES:
        path = cluster.get(key) or user.get(key)
        has_data = cluster.get(key + "-data") or user.get(key + "-data") or (key == "tokenFile" and user.get("token"))
        if path and not has_data:
            _readable(path, f"{source}: {key}")
    return cluster, user


def _readable(path: str, what: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConnectionOptionsError(f"{what} {path} can't be read: {error.strerror}.") from error


def _find(config: Mapping[str, Any], section: str, entry: str, name: Any) -> Optional[Dict[str, Any]]:
    items: List[Dict[str, Any]] = config.get(section) or []
    return next((dict(item.get(entry) or {}) for item in items if item["name"] == name), None)


def _one_of(config: Mapping[str, Any], section: str) -> str:
    names = [repr(item["name"]) for item in config.get(section) or []]
    return ", ".join(names) if names else f"none (its list of {section} is empty)"
