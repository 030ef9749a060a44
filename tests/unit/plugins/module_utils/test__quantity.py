# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities, against what ParseQuantity of k8s.io/apimachinery 0.36.3 answered for each of these texts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.lingjun.rdma.plugins.module_utils import _quantity
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("1000", 1000),
        ("00012", 12),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1M", 10**6),
        ("1Mi", 2**20),
        ("1G", 10**9),
        ("1Gi", 2**30),
        ("1T", 10**12),
        ("1Ti", 2**40),
        ("1P", 10**15),
        ("1Pi", 2**50),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("1e0", 1),
        ("12E12", 12 * 10**12),
        ("1E18", 10**18),
        ("1e19", 10**19),
        ("0e99", 0),
        ("1e-3", Fraction(1, 1000)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1.G", 10**9),
        ("0012.500", Fraction(25, 2)),
        ("100m", Fraction(1, 10)),
        ("0.1m", Fraction(1, 10000)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("1.5Ki", 1536),
        ("1.25Mi", 1310720),
        ("0.0001Ki", Fraction("0.1024")),
        # Signs.
        ("+1", 1),
        ("-1", -1),
        ("-1k", -1000),
        ("-1.5Ki", -1536),
        ("-0", 0),
        # Finer than a nano: away from zero.
        ("0.1n", Fraction(1, 10**9)),
        ("1.5n", Fraction(2, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1e-10", Fraction(1, 10**9)),
        ("1e-99", Fraction(1, 10**9)),
        ("1e-99999999", Fraction(1, 10**9)),
        ("1.0000000001", Fraction(1000000001, 10**9)),
        ("1.0000000001Ki", Fraction(1024000000103, 10**9)),
        ("123456789.1234567891", Fraction(123456789123456790, 10**9)),
        # The largest.
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("9223372036854775807.5", Fraction(2**64 - 1, 2)),
        ("9E", 9 * 10**18),
        ("10E", 10**19),
        ("7Ei", 7 * 2**60),
        ("8Ei", 2**63 - 1),
        ("9Ei", 2**63 - 1),
        ("-9Ei", -(2**63 - 1)),
        ("8388608Ti", 2**63 - 1),
        ("1e99", 10**99),
        (1000, 1000),
        (0, 0),
    ],
)
def test_value(text: str | int, value: Fraction | int) -> None:
    assert _quantity.parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "1K",
        "1KI",
        "1ki",
        "1mi",
        "1i",
        ".5i",
        "1e",
        "3e",
        "1ee3",
        "1kk",
        "1e3k",
        "1e3.5",
        "1E1Ki",
        "1+",
        "1e+",
        "+-1",
        "--1",
        "1_000",
        "1,000",
        "0x10",
        "nan",
        "inf",
        "Ki",
        "e3",
        "1.2.3",
        "١",
    ],
)
def test_refused_as_by_kubernetes(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        _quantity.parse(text)


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1 k", "1\n", True, None, 1.5, [1], ".", "+", "-", "k"])
def test_refused_here(text: object) -> None:
    """White space and other types; and texts without a digit, which ParseQuantity takes for 0."""
    with pytest.raises(ValueError, match="is no quantity"):
        _quantity.parse(text)  # type: ignore[arg-type]


def test_an_exponent_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        _quantity.parse("1e2147483648")


@pytest.mark.parametrize(
    ("text", "units"), [("1k", 1000), ("100m", 1), ("1.5", 2), ("0", 0), ("0.1Ki", 103), ("2500m", 3)]
)
def test_whole_rounds_up_as_quantity_value_does(text: str, units: int) -> None:
    assert _quantity.whole(text) == units


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "k", "M", "Ki", "Mi", "m"]))
def test_a_suffix_is_a_factor(number: int, suffix: str) -> None:
    factor = {"": 1, "k": 1000, "M": 10**6, "Ki": 1024, "Mi": 2**20, "m": Fraction(1, 1000)}[suffix]
    expected = number * factor
    if suffix in ("Ki", "Mi"):
        expected = max(min(expected, 2**63 - 1), -(2**63 - 1))
    assert _quantity.parse(f"{number}{suffix}") == expected
