# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of the config parser over all documents: it refuses or takes, and what it takes it takes for good."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rdma_dp.core import config
from rdma_dp.core.config_keys import FILE, HEALTH, POOL
from rdma_dp.core.config_selectors import READERS as SELECTORS

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["shared", "exclusive", "15b3", "0x15B3", "link/ether", "pf", "17:00.0", "mlx5_*", "uverbs"])
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3)
)


def mapping(keys: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[Any, Any]]:
    """Mostly keys that are known, in any case, with values that are often right."""
    names = sorted(keys)
    known = st.sampled_from([*names, *(name.upper() for name in names)])
    return st.dictionaries(known | st.text(max_size=4) | scalars, values, max_size=6)


selectors = mapping(SELECTORS, st.lists(scalars, max_size=3) | anything)
pools = mapping([*POOL, "selectors"], scalars | st.lists(scalars, max_size=3) | selectors | anything)
documents = st.fixed_dictionaries(
    {"configList": st.lists(pools | anything, max_size=3) | anything},
    optional={"health": mapping(HEALTH, scalars) | anything, **dict.fromkeys(FILE, scalars)},
)


def problems_of(document: Any) -> tuple[config.Problem, ...]:
    try:
        config.parse(document)
    except config.ConfigInvalid as error:
        return error.problems or (config.Problem("", "\n"),)  # no problem at all would be one
    return ()


@settings(deadline=None)
@given(documents | anything)
@example({"configList": [{"resourceName": "a", "devices": ["x"], "rdmaHcaMax": 10**400}]})
def test_it_raises_nothing_but_config_invalid_and_changes_nothing(document: Any) -> None:
    before = copy.deepcopy(document)
    for problem in problems_of(document):
        assert "\n" not in str(problem)
        str(problem).encode()  # printable, whatever the document holds
    assert repr(document) == repr(before)


_hex_id = st.from_regex(r"(0x)?[0-9a-fA-F]{4}", fullmatch=True)
_kernel_name = st.from_regex(r"[a-z][a-z0-9_]{0,14}", fullmatch=True)
good_selectors = st.dictionaries(st.sampled_from(["vendors", "deviceIDs"]), st.lists(_hex_id, max_size=3)).flatmap(
    lambda ids: st.fixed_dictionaries(
        {"rdmaDevices": st.lists(_kernel_name, min_size=1, max_size=3)},
        optional={
            "drivers": st.lists(_kernel_name, max_size=2),
            "ifNames": st.lists(_kernel_name, max_size=2),
            "linkTypes": st.lists(st.sampled_from(["ether", "Ethernet", "link/infiniband", "IB"]), max_size=2),
            "pciAddresses": st.lists(st.from_regex(r"[0-9A-F]{2}:[01][0-9a-f]\.[0-7]", fullmatch=True), max_size=2),
            "functions": st.lists(st.sampled_from(["pf", "vf", "sf", "VF"]), max_size=3),
        },
    ).map(lambda rest: {**ids, **rest})
)
_common = {
    "excludeTopology": st.booleans(),
    "nccl": st.booleans() | st.none(),
    "cdi": st.booleans(),
    "requiredCharDevices": st.lists(st.sampled_from(["uverbs", "umad", "issm", "rdma_cm"]), min_size=1),
}
_shared = {"rdmaHcaMax": st.integers(1, 5000), "mode": st.sampled_from(["shared", "Shared"])}
good_pools = (
    st.fixed_dictionaries(
        {"selectors": good_selectors}, optional={**_common, **_shared, "rdmaHcaScope": st.just("nic")}
    )
    | st.fixed_dictionaries(
        {"selectors": good_selectors}, optional={**_common, **_shared, "healthPolicy": st.sampled_from(["any", "ALL"])}
    )
    | st.fixed_dictionaries({"selectors": good_selectors, "mode": st.just("exclusive")}, optional=_common)
)


def named(pools: list[dict[str, Any]]) -> dict[str, Any]:
    exclusive = sum(pool.get("mode") == "exclusive" for pool in pools)
    unsettable = ("nccl",) if exclusive > 1 else ()
    return {
        "configList": [
            {"resourceName": f"r{number}", **{key: value for key, value in pool.items() if key not in unsettable}}
            for number, pool in enumerate(pools)
        ]
    }


good_documents = st.builds(
    lambda pools, rest: {**named(pools), **rest},
    st.lists(good_pools, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "periodicUpdateInterval": st.integers(0, 86400),
            "health": st.fixed_dictionaries({}, optional={"pollInterval": st.floats(0.1, 3600)}),
        },
    ),
)


@settings(deadline=None)
@given(good_documents)
def test_normalising_twice_changes_nothing(document: dict[str, Any]) -> None:
    once = config.parse(document)
    normalised = config.to_document(once)
    assert config.parse(normalised) == once
    assert config.to_document(config.parse(normalised)) == normalised
    assert config.digest(config.parse(normalised)) == config.digest(once)
