# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a rollout is done, and what keeps it, from the objects as the controller and kubelet write them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _rollout

from tests.unit.plugins import objects

PULL = {"name": "plugin", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "image x"}}}


@pytest.mark.parametrize(
    ("numbers", "complete"),
    [
        ({"desired": 2}, True),
        ({"desired": 0}, True),
        ({"desired": 2, "available": 1}, False),
        ({"desired": 2, "updated": 1}, False),
        # The numbers are about the spec before the change.
        ({"desired": 2, "generation": 2, "observed": 1}, False),
        ({"desired": 2, "updated": 0, "strategy": "OnDelete"}, True),
        ({"desired": 2, "available": 0, "strategy": "OnDelete"}, False),
    ],
)
def test_complete(numbers: dict[str, Any], complete: bool) -> None:
    assert _rollout.parse(objects.daemon_set(**numbers)).complete is complete


def test_a_daemon_set_without_status_is_not_complete() -> None:
    raw = objects.daemon_set(desired=0)
    del raw["status"]
    assert not _rollout.parse(raw).complete


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({}, ""),
        ({"matchLabels": {"a": "1", "b": "2"}}, "a=1,b=2"),
        (
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["1", "2"]},
                    {"key": "b", "operator": "NotIn", "values": ["3"]},
                    {"key": "c", "operator": "Exists"},
                    {"key": "d", "operator": "DoesNotExist"},
                ]
            },
            "a in (1,2),b notin (3),c,!d",
        ),
    ],
)
def test_label_selector(selector: dict[str, Any], text: str) -> None:
    assert _rollout.label_selector(selector) == text


def failures(
    daemon_set: dict[str, Any], pods: list[dict[str, Any]], nodes: list[str], refused: str = ""
) -> list[tuple[str, ...]]:
    parsed = _rollout.parse(daemon_set)
    mine = [found for pod in pods if (found := _rollout.pod(pod, parsed))]
    return [(item.node, item.pod, item.reason) for item in _rollout.failures(parsed, mine, nodes, refused)]


def test_failures_by_node() -> None:
    bad = objects.plugin_pod("b", ready=False, phase="Pending", statuses=[PULL])
    good = objects.plugin_pod("a")
    stranger = objects.pod("stranger", "b", ready=False, labels={"app.kubernetes.io/name": "rdma-dp"})
    assert failures(objects.daemon_set(desired=3, available=1), [good, bad, stranger], ["c", "b", "a"]) == [
        ("b", "rdma-dp-shared-b", "ErrImageNeverPull"),
        ("c", "", "NoPod"),
    ]


def test_refused_pods() -> None:
    found = failures(objects.daemon_set(desired=2, available=0, updated=0), [], ["a", "b"], "exceeded quota")
    assert found == [("a", "", "FailedCreate"), ("b", "", "FailedCreate")]


def test_refused_pods_on_nodes_that_can_not_be_told() -> None:
    assert failures(objects.daemon_set(desired=2, available=0, updated=0), [], [], "exceeded quota") == [
        ("", "", "FailedCreate")
    ]


def test_pods_of_the_old_template() -> None:
    daemon_set = objects.daemon_set(desired=2, updated=1, template=2)
    new = objects.plugin_pod("b")
    new["metadata"]["labels"]["pod-template-generation"] = "2"
    assert failures(daemon_set, [objects.plugin_pod("a"), new], ["a", "b"]) == [("a", "rdma-dp-shared-a", "Outdated")]
    # Its own trouble does not count: it is about to be replaced.
    old = objects.plugin_pod("a", ready=False, statuses=[PULL])
    assert failures(daemon_set, [old, new], ["a", "b"]) == [("a", "rdma-dp-shared-a", "Outdated")]


def test_pods_of_the_old_template_are_meant_to_stay_with_on_delete() -> None:
    daemon_set = objects.daemon_set(desired=1, updated=0, available=0, template=2, strategy="OnDelete")
    assert failures(daemon_set, [objects.plugin_pod("a")], ["a"]) == []
    old = objects.plugin_pod("a", ready=False, statuses=[PULL])
    assert failures(daemon_set, [old], ["a"]) == [("a", "rdma-dp-shared-a", "ErrImageNeverPull")]


@pytest.mark.parametrize(
    ("events", "after", "message"),
    [
        ([], "2026-12-01T10:00:00Z", ""),
        ([{"lastTimestamp": "2026-12-01T09:59:59Z", "message": "old"}], "2026-12-01T10:00:00Z", ""),
        ([{"lastTimestamp": "2026-12-01T10:00:00Z", "message": "new\n line"}], "2026-12-01T10:00:00Z", "new line"),
        ([{"eventTime": "2026-12-01T10:00:01.5Z", "message": "new"}], "2026-12-01T10:00:00Z", "new"),
        (
            [
                {
                    "eventTime": "2026-12-01T09:00:00Z",
                    "series": {"lastObservedTime": "2026-12-01T10:00:01.5Z"},
                    "message": "again",
                }
            ],
            "2026-12-01T10:00:00Z",
            "again",
        ),
        ([{"message": "no time"}], "", "no time"),
    ],
)
def test_latest_event(events: list[dict[str, Any]], after: str, message: str) -> None:
    assert _rollout.latest_event(events, after) == message


def test_message_has_node_pod_reason_and_remedy() -> None:
    daemon_set = _rollout.parse(objects.daemon_set(desired=2, available=0))
    found = [_rollout.Failure("a", "p", "ErrImageNeverPull", "image x is not present")]
    message = _rollout.message(daemon_set, found, "can't succeed")
    assert "DaemonSet kube-system/rdma-dp-shared can't succeed (0 of 2 pods available, 2 updated)." in message
    assert "a (pod p): ErrImageNeverPull: image x is not present (load the image on the node" in message
