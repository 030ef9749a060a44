# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sentence out of a failed task of kubernetes.core, whose message holds the server's JSON or a traceback."""

from __future__ import annotations

DOCUMENTATION = r"""
name: api_problem
short_description: Makes a sentence of a failed kubernetes.core task
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Takes the API server's own message out of the result of M(kubernetes.core.k8s) or M(kubernetes.core.k8s_info).
  - Of a conflict about fields, names the fields and who owns them.
options:
  _input:
    description: The result of the task.
    type: dict
    required: true
  remedies:
    description: From a reason of Kubernetes, like V(NotFound), to what the user should do.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Stop when the object could not be applied
  ansible.builtin.fail:
    msg: "{{ applied | lingjun.rdma.api_problem({'Conflict': 'Set force to take the fields over.'}) }}"
  when: applied.msg is defined
"""

RETURN = r"""
_value:
  description: The sentence, with the remedy behind it.
  type: str
"""

import ast
import json
import re
from typing import Any, Callable, Dict, Mapping, Optional

_MANAGER = re.compile(r'conflict with "([^"]*)"')
_GENERAL = {
    "Forbidden": "Use an account that may do this, or have it granted.",
    "Unauthorized": "Renew the credentials of the kubeconfig.",
}
_LONGEST = 600


def api_problem(result: Mapping[str, Any], remedies: Optional[Mapping[str, str]] = None) -> str:
    """The sentence for the person at the keyboard."""
    text = str(result.get("msg") or "") or str(result.get("module_stderr") or "")
    crash = str(result.get("exception") or result.get("module_stderr") or "")
    if "Traceback (most recent call last)" in crash and (not text or "MODULE FAILURE" in text):
        # The last line of a traceback is the exception itself.
        text = crash.strip().splitlines()[-1]
    status = _status(text)
    reason = str(status.get("reason") or "") if status else ""
    message = _conflicts(status) or str(status.get("message") or "") if status else ""
    # An exception that kubernetes.core does not catch, as of a lost connection, leaves no message.
    sentence = _line(
        message
        or text
        or "The API server can't be reached any more, or kubernetes.core failed; run again with -vvv to see more"
    )
    remedy = {**_GENERAL, **(remedies or {})}.get(reason, "")
    sentence = sentence.rstrip(".")
    return sentence + ("" if sentence.endswith(("?", "!")) else ".") + (f" {remedy}" if remedy else "")


def _status(text: str) -> Dict[str, Any]:
    """The Status object of the API in the text; empty when there is none."""
    for opening, closing in (("b'", "'"), ('b"', '"')):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            try:
                return _object(ast.literal_eval(text[start : end + 1]).decode())
            except (ValueError, SyntaxError, AttributeError, UnicodeDecodeError):
                continue
    start, end = text.find("{"), text.rfind("}")
    return _object(text[start : end + 1]) if 0 <= start < end else {}


def _object(text: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _conflicts(status: Mapping[str, Any]) -> str:
    """Which fields of the object somebody else owns."""
    details = status.get("details") or {}
    causes = [cause for cause in details.get("causes") or [] if cause.get("reason") == "FieldManagerConflict"]
    if not causes:
        return ""
    owners: Dict[str, list[str]] = {}
    for cause in causes:
        found = _MANAGER.search(str(cause.get("message", "")))
        owners.setdefault(found.group(1) if found else "somebody else", []).append(str(cause.get("field", "")))
    listed = "; ".join(f"{owner} set {', '.join(fields)}" for owner, fields in owners.items())
    return f"The {details.get('kind', 'object')} {details.get('name', '')} was changed by others: {listed}"


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"api_problem": api_problem}
