# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that touch nothing of the machine's, and the lock that two starts share."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.errors import SandboxError
from tests.sandbox.network import AddressPlan, choose_prefix, one_at_a_time, parse_taken
from tests.sandbox.spec import MAX_NODES

PLAN = AddressPlan(IPv4Network("10.88.0.0/16"))


def test_an_empty_machine_gets_the_first_candidate() -> None:
    assert choose_prefix([]) == PLAN


@pytest.mark.parametrize(
    ("taken", "chosen"),
    [
        (["10.88.0.0/24"], "10.89.0.0/16"),  # another sandbox
        (["10.88.255.255/32"], "10.89.0.0/16"),
        (["10.87.0.0/16", "10.128.0.0/9"], "10.88.0.0/16"),  # neighbours do not count
        (["10.88.0.0/15"], "10.90.0.0/16"),
        (["10.0.0.0/8"], "172.20.0.0/16"),  # a company's VPN
        (["10.0.0.0/8", "172.16.0.0/12"], "198.18.0.0/16"),
    ],
)
def test_what_is_in_use_is_left_alone(taken: list[str], chosen: str) -> None:
    assert choose_prefix(map(IPv4Network, taken)).prefix == IPv4Network(chosen)


def test_no_free_subnet_says_where_to_look() -> None:
    with pytest.raises(SandboxError, match="ip -4 route"):
        choose_prefix([IPv4Network("0.0.0.0/1"), IPv4Network("128.0.0.0/1")])


@given(st.lists(st.integers(0, 2**32 - 1).flatmap(lambda n: st.integers(9, 32).map(lambda p: (n, p))), max_size=30))
def test_a_chosen_subnet_never_overlaps(pairs: list[tuple[int, int]]) -> None:
    taken = [IPv4Network((number, prefix), strict=False) for number, prefix in pairs]
    try:
        prefix = choose_prefix(taken).prefix
    except SandboxError:
        return
    assert not any(prefix.overlaps(network) for network in taken)


def test_routes_and_addresses_are_read_and_the_default_route_is_not() -> None:
    routes = [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"dst": "10.90.0.0/24", "dev": "tun0"},
        {"type": "local", "dst": "192.0.2.7", "dev": "eth0", "table": "local"},
    ]
    addresses = [
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
        {"ifname": "docker0", "addr_info": [{"family": "inet", "local": "172.17.0.1", "prefixlen": 16}]},
        {},
    ]
    assert set(parse_taken(json.dumps(routes), json.dumps(addresses))) == {
        IPv4Network("10.90.0.0/24"),
        IPv4Network("192.0.2.7/32"),
        IPv4Network("127.0.0.0/8"),
        IPv4Network("172.17.0.0/16"),
    }


def test_the_plan_holds_as_many_nodes_as_are_allowed_without_overlap() -> None:
    subnets = [PLAN.nodes, PLAN.services, *(PLAN.pods(index) for index in range(MAX_NODES))]
    assert all(subnet.subnet_of(PLAN.prefix) for subnet in subnets)
    assert not any(one.overlaps(other) for number, one in enumerate(subnets) for other in subnets[number + 1 :])
    hosts = [PLAN.host, *(PLAN.node(index) for index in range(MAX_NODES))]
    assert len(set(hosts)) == len(hosts)
    assert all(host in PLAN.nodes and host != PLAN.nodes.broadcast_address for host in hosts)


def test_the_plan_is_the_documented_one() -> None:
    assert (PLAN.host, PLAN.node(0), PLAN.node(1)) == tuple(map(IPv4Address, ("10.88.0.1", "10.88.0.11", "10.88.0.12")))
    assert ip_address("10.88.1.5") in PLAN.pods(0)


def test_a_name_is_held_by_one_at_a_time_and_free_afterwards() -> None:
    with one_at_a_time("lrs-unit-test", 0.0, "busy"):
        with pytest.raises(SandboxError, match="busy"), one_at_a_time("lrs-unit-test", 0.0, "busy"):
            pass
        with one_at_a_time("lrs-unit-test-2", 0.0, "busy"):
            pass
    with one_at_a_time("lrs-unit-test", 0.0, "busy"):
        pass
