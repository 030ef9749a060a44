# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities (``1k``, ``1Ki``, ``100m``), exactly. Private to this collection.

The rules are those of ``ParseQuantity`` in k8s.io/apimachinery/pkg/api/resource: decimal suffixes n u m k M G T P E,
binary ones Ki Mi Gi Ti Pi Ei, or a decimal exponent; finer than 1e-9 is rounded away from zero; a binary quantity
beyond 2**63-1 is that. Three texts without any digit that it takes for 0 (``.``, ``+``, ``k``) are refused here.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Union

_QUANTITY = re.compile(
    r"""(?P<sign>[+-]?)
        (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
        (?:(?P<binary>[KMGTPE]i)|(?P<decimal>[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?""",
    re.VERBOSE | re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 10**9
_LARGEST_BINARY = 2**63 - 1
# An exponent beyond this is a slip of the keyboard; computing it exactly would take all memory.
_LARGEST_EXPONENT = 999


def parse(text: Union[str, int]) -> Fraction:
    """The exact value of a quantity, in units of the resource.

    Raises ValueError, with a sentence, for anything that is no quantity; bool and float are none.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        raise ValueError(f"{text!r} is no quantity: write a whole number, or a text like '1k'")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(
            f"{text!r} is no quantity: write a number and at most one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi"
            " Ei, like 1000 or 1k"
        )
    value = Fraction(match["number"].rstrip("."))
    if match["binary"]:
        value *= 2 ** _BINARY[match["binary"]]
    elif match["decimal"]:
        value *= Fraction(10) ** _DECIMAL[match["decimal"]]
    elif match["exponent"] and value:
        exponent = int(match["exponent"])
        if exponent > _LARGEST_EXPONENT:
            raise ValueError(f"{text!r} is too large for a quantity")
        value *= Fraction(10) ** max(exponent, -_LARGEST_EXPONENT)
    value = Fraction(math.ceil(value * _NANO), _NANO)
    if match["binary"]:
        value = min(value, Fraction(_LARGEST_BINARY))
    return -value if match["sign"] == "-" else value


def whole(text: Union[str, int]) -> int:
    """The value rounded up to whole units: how Kubernetes counts devices. Raises ValueError as :func:`parse` does."""
    return math.ceil(parse(text))
