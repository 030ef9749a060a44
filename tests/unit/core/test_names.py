# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource names, environment variables and device IDs: KUBELET.md rules 16-18 and 22-24, DESIGN.md 4."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdma_dp.core import names


@pytest.mark.parametrize(
    "name", ["hca", "hca_a", "hca-a", "hca.a", "H1", "1", "a" * 63, "rdma_shared_device_a", "a-_.b"]
)
def test_name_that_kubernetes_takes(name: str) -> None:
    assert names.refuse_name(name) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("", "for example 'hca'"),
        ("_hca", "did you mean 'hca'?"),
        ("hca_", "did you mean 'hca'?"),
        ("-hca", "did you mean 'hca'?"),
        (".", "letter or digit at both ends"),
        ("a" * 64, "at most 63"),
        ("h ca", "letters, digits"),
        ("hca\n", "letters, digits"),
        ("rdma/hca", "resourcePrefix: rdma and resourceName: hca"),
        ("hçа", "letters, digits"),
    ],
)
def test_name_that_kubernetes_refuses(name: str, hint: str) -> None:
    refusal = names.refuse_name(name)
    assert refusal is not None
    assert hint in refusal[1]


@pytest.mark.parametrize("prefix", ["rdma", "mellanox.com", "a-b.c-d", "1", ".".join(["a" * 60] * 4)])
def test_prefix_that_kubernetes_takes(prefix: str) -> None:
    assert names.refuse_prefix(prefix) is None


@pytest.mark.parametrize(
    ("prefix", "message", "hint"),
    [
        ("a b/c", "DNS subdomain", "lower-case"),
        ("RDMA", "DNS subdomain", "did you mean 'rdma'?"),
        ("my_rdma", "DNS subdomain", "did you mean 'my-rdma'?"),
        ("rdma.", "DNS subdomain", "lower-case"),
        ("a..b", "DNS subdomain", "lower-case"),
        ("-a", "DNS subdomain", "lower-case"),
        ("kubernetes.io", "reserved", "rdma"),
        ("node.kubernetes.io", "reserved", "rdma"),
        ("requests.rdma", "quotas", "leave"),
        ("a" * 245, "245 characters", "244"),
    ],
)
def test_prefix_that_kubernetes_refuses(prefix: str, message: str, hint: str) -> None:
    refusal = names.refuse_prefix(prefix)
    assert refusal is not None
    assert message in refusal[0]
    assert hint in refusal[1]


def test_environment_variables_carry_the_full_resource_name() -> None:
    assert names.devices_variable("rdma/hca") == "RDMA_DP_RDMA_HCA_DEVICES"
    assert names.pci_variable("my-corp.com/hca_a.b") == "RDMA_DP_MY_CORP_COM_HCA_A_B_PCI"


def test_shared_ids_are_those_of_the_design() -> None:
    assert names.shared_id(names.shared_front("rdma", "hca"), 42) == "rdma.hca-42"
    front = names.shared_front("rdma", "hca", "0000:17:00.0")
    assert names.shared_id(front, 0) == "rdma.hca@0000:17:00.0-0"


def test_exclusive_id_is_the_nics_own() -> None:
    assert names.exclusive_id("0000:17:00.0") == "0000:17:00.0"
    assert names.exclusive_id("10000:01:00.1") == "10000:01:00.1"
    assert names.exclusive_id("rxe0") == "rxe0"


def test_a_front_is_hashed_only_when_five_digits_would_not_fit() -> None:
    longest = "a" * 50  # "rdma." and "-99999" make it 61
    assert names.shared_id(names.shared_front("rdma", longest), 99999) == f"rdma.{longest}-99999"
    assert names.shared_front("rdma", "a" * 52) == "rdma." + "a" * 52
    hashed = names.shared_front("rdma", "a" * 53)
    assert re.fullmatch("hash@[0-9a-f]{24}", hashed)  # 96 bits: no two names of a node ever meet
    assert hashed != names.shared_front("rdma", "a" * 54)


def test_names_that_are_hashed_do_not_meet() -> None:
    """As many resources as one node could ever have, all with names that are too long for an ID."""
    fronts = {names.shared_front("a" * 50 + str(number), "b" * 60) for number in range(2000)}
    assert len(fronts) == 2000


any_name = st.text(min_size=1, max_size=300)
k8s_name = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", fullmatch=True)
k8s_prefix = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,100}[a-z0-9])?", fullmatch=True)


@settings(deadline=None)
@given(prefix=any_name, name=any_name, nic=st.text(max_size=300), number=st.integers(0, names.MAX_DEVICES - 1))
def test_ids_have_at_most_63_characters_whatever_the_names(prefix: str, name: str, nic: str, number: int) -> None:
    assert len(names.shared_id(names.shared_front(prefix, name, nic), number)) <= 63
    assert len(names.exclusive_id(nic)) <= 63


@settings(deadline=None)
@given(
    pools=st.sets(st.tuples(k8s_prefix, k8s_name), max_size=5),
    nics=st.sets(st.text(min_size=1, max_size=63) | st.just("rdma.hca-1") | st.just("rdma.hca@rxe0-1"), max_size=5),
    numbers=st.sets(st.integers(0, names.MAX_DEVICES - 1), max_size=5),
)
def test_ids_are_unique_over_all_resources(pools: set[tuple[str, str]], nics: set[str], numbers: set[int]) -> None:
    by_variable = {names.devices_variable("/".join(pool)): pool for pool in pools}  # what a valid config can have
    ids = [names.exclusive_id(nic) for nic in nics]
    for prefix, name in by_variable.values():
        fronts = [names.shared_front(prefix, name), *(names.shared_front(prefix, name, nic) for nic in nics)]
        ids += [names.shared_id(front, number) for front in fronts for number in numbers]
    assert len(set(ids)) == len(ids)
