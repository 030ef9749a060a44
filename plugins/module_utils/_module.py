# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all API modules share: their common options, and how they begin and end. Private to this collection."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lingjun.rdma.plugins.module_utils import _auth
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue, Problem


def common_options() -> Dict[str, Any]:
    """The options of kubernetes.core.k8s_auth_options and of our doc fragment ``api``."""
    return {
        "kubeconfig": {"type": "raw", "no_log": True},
        "context": {"type": "str"},
        "host": {"type": "str"},
        "api_key": {"type": "str", "no_log": True},
        "username": {"type": "str"},
        "password": {"type": "str", "no_log": True},
        "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
        "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
        "client_cert": {"type": "path", "aliases": ["cert_file"]},
        "client_key": {"type": "path", "aliases": ["key_file"], "no_log": False},
        "proxy": {"type": "str"},
        "no_proxy": {"type": "str"},
        "proxy_headers": {
            "type": "dict",
            "options": {
                "proxy_basic_auth": {"type": "str", "no_log": True},
                "basic_auth": {"type": "str", "no_log": True},
                "user_agent": {"type": "str"},
            },
        },
        "persist_config": {"type": "bool"},
        "impersonate_user": {"type": "str"},
        "impersonate_groups": {"type": "list", "elements": "str"},
        "request_timeout": {"type": "int", "default": 30},
        "retries": {"type": "int", "default": 4},
    }


def node_options() -> Dict[str, Any]:
    """The options of our doc fragment ``nodes``. Of the two, one must be given."""
    return {
        "nodes": {"type": "list", "elements": "str"},
        "label_selectors": {"type": "list", "elements": "str"},
    }


def client(module: AnsibleModule) -> Client:
    """A client for the module's connection options. Raises Problem."""
    params = module.params
    if params["request_timeout"] < 1:
        raise InvalidValue(f"request_timeout is {params['request_timeout']}; give at least 1 s.")
    if params["retries"] < 0:
        raise InvalidValue(f"retries is {params['retries']}; give 0 or more.")
    options = _auth.resolve(params, os.environ)
    _show_what_is_no_secret(module, options)
    timeout = float(params["request_timeout"])
    return Client(lambda: _auth.connect(options, timeout), request_timeout=timeout, retries=params["retries"])


def _show_what_is_no_secret(module: AnsibleModule, options: Dict[str, Any]) -> None:
    """Let error messages name the kubeconfig's path and cluster, and hide secrets that came from the environment.

    ``no_log`` keeps the whole option out of the logs, but also cuts its texts, "v1" or "default" among them, out of
    every result.
    """
    kubeconfig = options["kubeconfig"]
    given = module.params["kubeconfig"]
    if isinstance(given, str):
        module.no_log_values.discard(given)
    elif isinstance(given, dict):
        secret = set(_auth.secrets(given))
        module.no_log_values.difference_update(set(_texts(given)) - secret)
    for value in (
        options["api_key"],
        options["password"],
        *(_auth.secrets(kubeconfig) if isinstance(kubeconfig, dict) else ()),
    ):
        if value:
            module.no_log_values.add(value)


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


def run(module: AnsibleModule, work: Callable[[Client], Dict[str, Any]]) -> None:
    """Do the module's work and end it: with the result that ``work`` returns, or with the sentence of a Problem."""
    try:
        result = work(client(module))
    except Problem as problem:
        module.fail_json(msg=str(problem), **problem.facts)
    module.exit_json(**result)
