# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a task is about, and the hint for a name that does not exist."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _nodes
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue, Problem, UnknownNodes

from tests.unit.plugins import objects
from tests.unit.plugins.conftest import Time
from tests.unit.plugins.fake_api import FakeApi
from tests.unit.plugins.module_utils.test__client import client

KNOWN = [
    ("node-a", ("10.0.0.1",)),
    ("node-b.example.com", ("10.0.0.2", "Host-B")),
    ("twin.east", ()),
    ("twin.west", ()),
    ("e01-cn-zvp2tgykr08", ()),
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Node-A", "node-a"),
        ("node-a.example.com", "node-a"),
        ("node-b", "node-b.example.com"),
        ("NODE-B.EXAMPLE.COM", "node-b.example.com"),
        ("10.0.0.2", "node-b.example.com"),
        ("host-b", "node-b.example.com"),
        ("e01-cn-zvp2tgykr80", "e01-cn-zvp2tgykr08"),
        ("twin", None),
        ("something-else", None),
        ("10.0.0.9", None),
    ],
)
def test_suggestion(name: str, meant: str | None) -> None:
    assert _nodes.suggest(name, KNOWN) == meant


@pytest.mark.parametrize(
    "params", [{"nodes": []}, {"nodes": ["", " "]}, {"label_selectors": []}, {"label_selectors": [" "]}]
)
def test_an_empty_selection_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="is empty"):
        _nodes.selection(params)


def test_selection() -> None:
    assert _nodes.selection({"nodes": ["b", " a", "b"]}).names == ("b", "a")
    assert _nodes.selection({"label_selectors": ["x=y", "z in (1,2)"]}).selector == "x=y,z in (1,2)"


@pytest.mark.parametrize("count", [3, 20])
class TestRead:
    def test_by_name_in_the_order_of_the_names(self, api: FakeApi, timing: Time, count: int) -> None:
        names = [f"n{number}" for number in range(count)]
        api.add("nodes", *(objects.node(name) for name in [*names, "other"]))
        found = _nodes.read(client(api.url, timing), _nodes.Selection(names=tuple(reversed(names))))
        assert _nodes.names_of(found.items) == names[::-1]
        assert found.resource_version == str(api.version)
        assert len(api.requests) == (count if count <= 16 else 1)

    def test_all_unknown_names_are_told_at_once(self, api: FakeApi, timing: Time, count: int) -> None:
        names = [f"n{number}" for number in range(count)]
        api.add("nodes", *(objects.node(name, address=f"10.0.0.{index}") for index, name in enumerate(names)))
        with pytest.raises(UnknownNodes) as caught:
            _nodes.read(client(api.url, timing), _nodes.Selection(names=(*names, "N1", "10.0.0.2", "nobody")))
        assert "N1 (probably n1), 10.0.0.2 (probably n2), nobody (nothing like it)" in str(caught.value)
        assert caught.value.facts == {"unknown_nodes": ["N1", "10.0.0.2", "nobody"]}


def test_selector_without_a_match(api: FakeApi, timing: Time) -> None:
    with pytest.raises(Problem, match="No node matches the label selector pool=nobody"):
        _nodes.read(client(api.url, timing), _nodes.Selection(selector="pool=nobody"))


def test_parse() -> None:
    node = _nodes.parse(
        objects.node("a", "shared", devices="1k", capacity="1024", unschedulable=True), ["rdma/hca", "x/none"]
    )
    assert (node.mode, node.ready, node.schedulable) == ("shared", True, False)
    assert node.allocatable == {"rdma/hca": 1000}
    assert node.capacity == {"rdma/hca": 1024}
    lost = _nodes.parse(objects.node("a", ready=False))
    assert not lost.ready
    assert lost.not_ready_because == "NodeStatusUnknown"
    assert _nodes.parse({"metadata": {"name": "new"}}).not_ready_because == "no Ready condition"
