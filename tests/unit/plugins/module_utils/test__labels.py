# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label keys and values at the edges of what Kubernetes takes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _labels


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("pool", True),
        ("lingjun.rdma/mode", True),
        ("A_b.c-9", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("x" * 253 + "/a", True),
        ("x" * 254 + "/a", False),
        ("", False),
        ("/a", False),
        ("a/", False),
        ("a/b/c", False),
        ("_a", False),
        ("a.", False),
        ("a b", False),
        ("Lingjun.rdma/mode", False),
        ("a..b/c", False),
        ("-a.b/c", False),
        ("ü", False),
        ("a\n", False),
    ],
)
def test_key(key: str, good: bool) -> None:
    assert (_labels.key_problem(key) == "") is good


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("", True),
        ("shared", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("1.0", True),
        ("-a", False),
        ("a ", False),
        ("a/b", False),
    ],
)
def test_value(value: str, good: bool) -> None:
    assert (_labels.value_problem(value) == "") is good


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("rdma/hca", True),
        ("nvidia.com/gpu", True),
        ("cpu", False),
        ("kubernetes.io/x", False),
        ("a.kubernetes.io/x", False),
        ("requests.a/x", False),
        ("rdma/_hca", False),
        ("rdma/", False),
    ],
)
def test_resource(name: str, good: bool) -> None:
    assert (_labels.resource_problem(name) == "") is good


@pytest.mark.parametrize(
    ("raw", "text"), [(True, "true"), (False, "false"), (0, "0"), (12, "12"), ("x", "x"), ("", ""), (None, None)]
)
def test_yaml_types_whose_text_is_certain_are_taken(raw: Any, text: str | None) -> None:
    assert _labels.labels({"a": raw}, "labels") == ({"a": text}, [])


@pytest.mark.parametrize("raw", [1.10, [], {}, ["a"]])
def test_yaml_types_whose_text_is_not_certain_are_refused(raw: Any) -> None:
    """``1.10`` has become 1.1 already."""
    _unused, problems = _labels.labels({"version": raw}, "labels")
    assert len(problems) == 1
    assert "labels[version]" in problems[0]
    assert "quotes" in problems[0]


def test_all_problems_at_once() -> None:
    _unused, problems = _labels.labels({"_a": "x", "b": "-", "c/": 1.5}, "only_if")
    assert len(problems) == 4


def test_taints() -> None:
    problems = _labels.taint_problems(
        [
            {"key": "a", "value": None, "effect": None, "state": "present"},
            {"key": "a", "value": None, "effect": None, "state": "absent"},
            {"key": "b b", "value": "x y", "effect": "NoExecute", "state": "present"},
            {"key": "c", "value": None, "effect": "NoSchedule", "state": "present"},
        ]
    )
    assert [problem.split(":")[0] for problem in problems] == [
        "taints[0]",
        "taints[1]",
        "taints[2].key",
        "taints[2].value",
    ]
