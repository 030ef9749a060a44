# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client against a server that does everything wrong: each measured trap of API and library is a case."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _auth
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import DAEMON_SETS, NODES, PODS
from ansible_collections.lingjun.rdma.plugins.module_utils._client import PAGE, RESTARTS, Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Unauthorized,
    Unreachable,
)

from tests.unit.plugins import fake_api, objects
from tests.unit.plugins.conftest import Time
from tests.unit.plugins.fake_api import FakeApi


def client(url: str, timing: Time, *, timeout: float = 5, retries: int = 4, **options: Any) -> Client:
    """A client with a token, which sleeps on a clock of its own."""
    resolved = _auth.resolve({"host": url, "api_key": "secret", **options}, {})
    return Client(
        lambda: _auth.connect(resolved, timeout), request_timeout=timeout, retries=retries, sleep=timing.sleep
    )


def name(thing: dict[str, Any]) -> str:
    return str(thing["metadata"]["name"])


class TestList:
    def test_pages(self, api: FakeApi, timing: Time) -> None:
        api.add("nodes", *(objects.node(f"node-{number:04}") for number in range(2 * PAGE + 1)))
        listing = client(api.url, timing).list(NODES, name)
        assert listing.items == [f"node-{number:04}" for number in range(2 * PAGE + 1)]
        assert listing.resource_version == str(api.version)
        assert [request.query["limit"] for request in api.requests] == ["500"] * 3
        assert len({request.port for request in api.requests}) == 1, "a connection is used again"

    def test_expired_page_begins_the_list_anew_without_double_items(self, api: FakeApi, timing: Time) -> None:
        api.add("nodes", *(objects.node(f"node-{number:04}") for number in range(PAGE + 1)))
        api.fault("GET", "continue=", fake_api.status(410, "The provided continue parameter is too old"))
        assert len(client(api.url, timing).list(NODES, name).items) == PAGE + 1
        assert [bool(request.query.get("continue")) for request in api.requests] == [False, True, False, True]

    def test_list_that_always_expires_ends(self, api: FakeApi, timing: Time) -> None:
        api.add("nodes", *(objects.node(f"node-{number:04}") for number in range(PAGE + 1)))
        api.fault("GET", "continue=", fake_api.status(410), times=100)
        with pytest.raises(Expired):
            client(api.url, timing).list(NODES, name)
        assert len(api.requests) == 2 * (RESTARTS + 1)

    def test_selectors_and_reduction(self, api: FakeApi, timing: Time) -> None:
        api.add(
            "pods",
            objects.pod("a", "n1", phase="Failed"),
            objects.pod("b", "n1"),
            objects.pod("c", None),
            objects.pod("d", "n2"),
        )
        selector = "spec.nodeName!=,status.phase!=Failed"
        listing = client(api.url, timing).list(
            PODS, lambda pod: None if name(pod) == "d" else name(pod), field_selector=selector
        )
        assert listing.items == ["b"]

    def test_metadata_only(self, api: FakeApi, timing: Time) -> None:
        api.add("nodes", objects.node("a"))
        assert client(api.url, timing).list(NODES, dict, metadata_only=True).items[0].keys() == {"metadata"}

    def test_count_needs_one_short_answer(self, api: FakeApi, timing: Time) -> None:
        api.add("pods", *(objects.pod(f"p{number}", "n") for number in range(7)))
        assert client(api.url, timing).count(PODS) == 7
        assert [request.query for request in api.requests] == [{"limit": "1"}]


class TestRetries:
    @pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
    def test_passing_failure(self, api: FakeApi, timing: Time, code: int) -> None:
        api.add("nodes", objects.node("a"))
        api.fault("GET", "nodes", fake_api.status(code), times=3)
        assert client(api.url, timing).list(NODES, name).items == ["a"]
        assert len(api.requests) == 4
        # Doubling from half a second, each up to a quarter longer.
        assert timing.slept is not None
        for slept, least in zip(timing.slept, (0.5, 1, 2), strict=True):
            assert least <= slept <= 1.25 * least

    @pytest.mark.parametrize("act", [fake_api.drop, fake_api.truncate], ids=["dropped", "truncated"])
    def test_lost_connection(self, api: FakeApi, timing: Time, act: Callable[[fake_api.Handler], None]) -> None:
        api.add("nodes", objects.node("a"))
        api.fault("GET", "nodes", act, times=2)
        assert client(api.url, timing).list(NODES, name).items == ["a"]

    def test_failure_that_stays_is_an_error_with_the_servers_words(self, api: FakeApi, timing: Time) -> None:
        api.fault("GET", "nodes", fake_api.status(503, "etcd is unavailable"), times=100)
        with pytest.raises(ApiError, match=r"list nodes.*503.*etcd is unavailable"):
            client(api.url, timing, retries=2).list(NODES, name)
        assert len(api.requests) == 3

    def test_retry_after_is_followed(self, api: FakeApi, timing: Time) -> None:
        api.fault("GET", "nodes", fake_api.status(429, retry_after="3"))
        client(api.url, timing).list(NODES, name)
        assert timing.slept is not None
        assert 3 <= timing.slept[0] <= 3.75

    def test_retry_after_of_an_hour_is_cut(self, api: FakeApi, timing: Time) -> None:
        api.fault("GET", "nodes", fake_api.status(503, retry_after="3600"))
        client(api.url, timing).list(NODES, name)
        assert timing.now <= 12.5

    def test_a_patch_is_retried_too(self, api: FakeApi, timing: Time) -> None:
        api.add("nodes", objects.node("a"))
        api.fault("PATCH", "nodes/a", fake_api.status(429, retry_after="1"))
        api.fault("PATCH", "nodes/a", fake_api.drop)
        client(api.url, timing).merge_patch(NODES, "a", {"metadata": {"labels": {"x": "y"}}})
        assert api.get("nodes", "a")["metadata"]["labels"]["x"] == "y"

    @pytest.mark.parametrize(("code", "kind"), [(400, ApiError), (404, NotFound), (409, Conflict), (422, ApiError)])
    def test_permanent_failure_is_not_retried(
        self, api: FakeApi, timing: Time, code: int, kind: type[ApiError]
    ) -> None:
        api.fault("GET", "nodes", fake_api.status(code, "because"), times=9)
        with pytest.raises(kind, match="because") as caught:
            client(api.url, timing).list(NODES, name)
        assert caught.value.status == code
        assert len(api.requests) == 1

    def test_conflict_after_a_lost_answer_is_marked(self, api: FakeApi, timing: Time) -> None:
        """The first patch was applied, its answer lost; the second is refused because of the first."""
        api.add("nodes", objects.node("a"))
        version = api.get("nodes", "a")["metadata"]["resourceVersion"]
        api.fault("PATCH", "nodes/a", fake_api.drop, after=True)
        patch = {"metadata": {"labels": {"x": "y"}, "resourceVersion": version}}
        with pytest.raises(Conflict) as caught:
            client(api.url, timing).merge_patch(NODES, "a", patch)
        assert caught.value.resent
        with pytest.raises(Conflict) as caught:
            client(api.url, timing).merge_patch(NODES, "a", patch)
        assert not caught.value.resent


class TestTimeouts:
    @pytest.mark.parametrize("act", [fake_api.stall, fake_api.drip(0.02)], ids=["stalled", "dripping"])
    def test_an_answer_that_does_not_end_is_given_up(
        self, api: FakeApi, timing: Time, act: Callable[[fake_api.Handler], None]
    ) -> None:
        """Timeouts of the library are between two bytes, so a dripping server is never stopped by them."""
        api.fault("GET", "nodes", act, times=2)
        started = time.monotonic()
        with pytest.raises(Unreachable, match=r"within 0\.3 s"):
            client(api.url, timing, timeout=0.3, retries=1).list(NODES, name)
        assert time.monotonic() - started < 2

    def test_server_that_is_down(self, api: FakeApi, timing: Time) -> None:
        with fake_api.serve() as other:
            url = other.url
        with pytest.raises(Unreachable, match=rf"{url}.*Connection refused"):
            client(url, timing, retries=2).list(NODES, name)
        assert timing.slept is not None
        assert len(timing.slept) == 2


class TestRefusals:
    def test_forbidden_names_verb_and_resource(self, api: FakeApi, timing: Time) -> None:
        api.fault(
            "GET", "nodes", fake_api.status(403, 'nodes is forbidden: User "u" cannot list resource "nodes"'), times=9
        )
        with pytest.raises(
            Forbidden, match=r"may not list nodes.*ClusterRole with the verb list on nodes.*User \"u\" cannot"
        ):
            client(api.url, timing).list(NODES, name)

    def test_forbidden_in_a_namespace_names_group_and_role(self, api: FakeApi, timing: Time) -> None:
        api.fault("GET", "daemonsets", fake_api.status(403), times=9)
        message = (
            r"may not get daemonsets x in namespace kube-system;"
            r" give it a Role in namespace kube-system with the verb get on daemonsets\.apps"
        )
        with pytest.raises(Forbidden, match=message):
            client(api.url, timing).get(DAEMON_SETS, "x", "kube-system")

    def test_forbidden_by_a_proxy_is_not_taken_for_rbac(self, api: FakeApi, timing: Time) -> None:
        api.fault("GET", "nodes", fake_api.html(403), times=9)
        with pytest.raises(Forbidden, match="look for a proxy"):
            client(api.url, timing).list(NODES, name)

    def test_unauthorized(self, api: FakeApi, timing: Time) -> None:
        api.token = "other"
        with pytest.raises(Unauthorized, match="does not accept the credentials"):
            client(api.url, timing).list(NODES, name)
        assert len(api.requests) == 1, "the same token need not be shown twice"

    def test_html_instead_of_json(self, api: FakeApi, timing: Time) -> None:
        api.fault("GET", "nodes", fake_api.html(200), times=9)
        with pytest.raises(
            ApiError, match="with an HTML page instead of JSON; is it the address of a Kubernetes API server"
        ):
            client(api.url, timing).list(NODES, name)

    def test_not_an_api_server(self, api: FakeApi, timing: Time) -> None:
        with pytest.raises(NotFound, match="does not know the path"):
            client(api.url + "/other", timing).list(NODES, name)

    def test_tls_to_a_plain_port(self, api: FakeApi, timing: Time) -> None:
        with pytest.raises(Unreachable, match="does not speak TLS"):
            client(api.url.replace("http:", "https:"), timing).list(NODES, name)
        assert timing.slept is None


class TestCredentials:
    def test_bearer_token_and_impersonation(self, api: FakeApi, timing: Time) -> None:
        client(api.url, timing, impersonate_user="ann", impersonate_groups=["one", "two"]).list(NODES, name)
        (request,) = api.requests
        assert request.header("authorization") == ["Bearer secret"]
        assert request.header("impersonate-user") == ["ann"]
        assert request.header("impersonate-group") == ["one", "two"]

    def test_basic_authentication(self, api: FakeApi, timing: Time) -> None:
        client(api.url, timing, api_key=None, username="ann", password="pw").list(NODES, name)
        assert api.requests[0].header("authorization") == ["Basic YW5uOnB3"]

    def test_renewed_once_after_a_401(self, api: FakeApi, timing: Time) -> None:
        tokens = iter(["old", "new", "never"])
        api.token = "new"

        def connect() -> _auth.Session:
            session = _auth.connect(_auth.resolve({"host": api.url, "api_key": next(tokens)}, {}), 5)
            return _auth.Session(session.url, session.pool, session.headers, renewable=True)

        one = Client(connect, request_timeout=5, retries=0, sleep=timing.sleep)
        assert one.list(NODES, name).items == []
        api.token = "newer"
        with pytest.raises(Unauthorized):
            one.list(NODES, name)
        assert [request.header("authorization") for request in api.requests] == [
            ["Bearer old"],
            ["Bearer new"],
            ["Bearer new"],
            ["Bearer never"],
        ]


class TestWatch:
    def test_yields_what_happens_after_the_list(self, api: FakeApi, timing: Time) -> None:
        api.add("nodes", objects.node("a"), objects.node("b"))
        one = client(api.url, timing)
        version = one.list(NODES, name).resource_version
        api.add("nodes", objects.node("a", devices="1k"))
        api.remove("nodes", "b")
        events = one.watch(NODES, version, one.clock() + 30)
        assert [(kind, name(thing)) for kind, thing in (next(events), next(events))] == [
            ("MODIFIED", "a"),
            ("DELETED", "b"),
        ]
        events.close()

    def test_ends_at_its_time(self, api: FakeApi, timing: Time) -> None:
        one = client(api.url, timing)
        started = time.monotonic()
        assert list(one.watch(NODES, str(api.version), one.clock() + 1)) == []
        assert 0.5 < time.monotonic() - started < 4

    def test_too_old(self, api: FakeApi, timing: Time) -> None:
        api.oldest = api.version
        with pytest.raises(Expired):
            list(client(api.url, timing).watch(NODES, "1", time.monotonic() + 5))

    def test_expired_in_the_middle(self, api: FakeApi, timing: Time) -> None:
        def act(handler: fake_api.Handler) -> None:
            error = {"kind": "Status", "code": 410, "message": "too old resource version"}
            handler.answer(200, json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")

        api.fault("GET", "watch=1", act)
        with pytest.raises(Expired):
            list(client(api.url, timing).watch(NODES, "1", time.monotonic() + 5))

    @pytest.mark.parametrize("act", [fake_api.truncate, fake_api.drop], ids=["truncated", "dropped"])
    def test_lost_connection_ends_it_quietly(
        self, api: FakeApi, timing: Time, act: Callable[[fake_api.Handler], None]
    ) -> None:
        api.fault("GET", "watch=1", act)
        one = client(api.url, timing)
        assert list(one.watch(NODES, str(api.version), one.clock() + 1)) == []
