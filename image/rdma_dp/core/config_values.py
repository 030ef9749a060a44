# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks and normalises the single values of a config: numbers, flags, words, lists.

A reader takes a value and returns the normalised one, or raises :class:`Refused`. It also carries the JSON Schema of
the normalised form, for editors. What the values of selectors look like is in ``config_selectors``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from .problems import Steps, kind, nearest, show

_DECIMAL = re.compile(r"[-+]?[0-9]{1,20}(\.[0-9]{0,20})?([eE][-+]?[0-9]{1,2})?")


class Refused(Exception):
    """A value can't be taken. ``notes`` has one or more of (place inside the value, what is wrong, what to write)."""

    def __init__(self, message: str = "", hint: str = "", notes: Sequence[Tuple[Steps, str, str]] = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes) or (((), message, hint),)


@dataclass(frozen=True)
class Reader:
    """How one kind of value is read, and the schema of its normalised form."""

    read: Callable[[object], Any]
    schema: Mapping[str, Any]
    unset: Tuple[object, ...] = (None,)  # values that are as good as leaving the key out
    item: Optional["Reader"] = None  # of a list: how its entries are read


def text(
    refuse: Callable[[str], Optional[Tuple[str, str]]], schema: Mapping[str, Any], unset: Tuple[object, ...] = (None,)
) -> Reader:
    """A text that ``refuse`` finds nothing wrong with; it returns what is wrong and what to write, or None."""

    def read(value: object) -> str:
        found = as_text(value)
        if not found.strip():
            raise Refused("is empty", "fill it in, or leave the key out")
        refusal = refuse(found)
        if refusal:
            message, hint = refusal
            raise Refused(f"{show(found)} {message}", hint)
        return found

    return Reader(read, {"type": "string", **schema}, unset)


def integer(lowest: int, highest: int, hints: Mapping[int, str]) -> Reader:
    """A whole number. ``hints`` has remedies for certain values out of bounds; -1 stands for all negative ones."""

    def read(value: object) -> int:
        whole = _whole(value)
        if not lowest <= whole <= highest:
            hint = hints.get(max(whole, -1), f"write a number from {lowest} to {highest}")
            raise Refused(f"{show(whole)} is not between {lowest} and {highest}", hint)
        return whole

    return Reader(read, {"type": "integer", "minimum": lowest, "maximum": highest})


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        meant = f"write {show(int(value))}" if value.is_integer() else "write a whole number"
        raise Refused(f"{show(value)} is not a whole number", meant)
    if isinstance(value, str):
        number = float(value) if _DECIMAL.fullmatch(value.strip()) else math.nan
        meant = f"write {show(int(number))}, without quotes" if number.is_integer() else "write a whole number"
        raise Refused(f"{show(value)} is text, not a number", meant)
    raise Refused(f"must be a whole number, not {kind(value)}", "write a whole number")


def number(lowest: float, highest: float) -> Reader:
    """A number, with or without a fraction."""

    def read(value: object) -> float:
        if isinstance(value, str):
            meant = f"write {value.strip()}, without quotes" if _DECIMAL.fullmatch(value.strip()) else "write a number"
            raise Refused(f"{show(value)} is text, not a number", meant)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refused(f"must be a number, not {kind(value)}", "write a number")
        if not lowest <= value <= highest:  # so for "not a number" too
            bounds = f"{lowest:g} and {highest:g}"
            raise Refused(f"{show(value)} is not between {bounds}", f"write a number between {bounds}")
        return float(value)

    return Reader(read, {"type": "number", "minimum": lowest, "maximum": highest})


def flag() -> Reader:
    """``true`` or ``false``."""

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        wrong = f"{show(value)} is {kind(value)}" if isinstance(value, (str, int, float)) else f"is {kind(value)}"
        word = value.strip().lower() if isinstance(value, str) else ""
        meant = f"write {word}, without quotes" if word in ("true", "false") else "write true or false"
        raise Refused(f"{wrong}, not true or false", meant)

    return Reader(read, {"type": "boolean"})


def choice(words: Sequence[str], aliases: Optional[Mapping[str, str]] = None) -> Reader:
    """One of some words, in any case; ``aliases`` has what else is certain to mean one of them."""
    known: Dict[str, str] = {**{word: word for word in words}, **(aliases or {})}

    def read(value: object) -> str:
        word = as_text(value).strip().lower()
        if word in known:
            return known[word]
        close = nearest(word, known)
        hint = f"did you mean {known[close]}?" if close else f"write {' or '.join(words)}"
        raise Refused(f"{show(value)} is not one of {', '.join(words)}", hint)

    return Reader(read, {"enum": list(words)})


def list_of(item: Reader, example: str, order: Sequence[str] = (), least: int = 0) -> Reader:
    """A list of at least so many, without repetitions, sorted as in ``order`` if that is given."""

    def read(value: object) -> Tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            inside = value if isinstance(value, str) and value.strip() and value.isprintable() else example
            raise Refused(f"must be a list, not {kind(value)}", f"write it as a list: [{show(inside)}]")
        if len(value) < least:
            raise Refused("is empty", f"leave it out for the default, {example}")
        items: Dict[Any, None] = {}
        notes = []
        for index, entry in enumerate(value):
            try:
                items[item.read(entry)] = None
            except Refused as refused:
                notes += [((index, *steps), message, hint) for steps, message, hint in refused.notes]
        if notes:
            raise Refused(notes=notes)
        return tuple(sorted(items, key=order.index) if order else items)

    schema = {"type": "array", "items": dict(item.schema), **({"minItems": least} if least else {})}
    return Reader(read, schema, item=item)


def as_text(value: object) -> str:
    """The value as plain ``str`` (Ansible has types of its own). Raises Refused for what is no text."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        raise Refused("is null", "fill it in, or leave it out")
    if isinstance(value, bool):
        raise Refused(f"{show(value)} is {kind(value)}, not text", "put it in quotes if text is meant")
    if isinstance(value, (int, float)):
        shown = show(value)
        meant = f'put it in quotes: "{shown}"' if shown[-1:].isdigit() else "write a text"
        raise Refused(f"{shown} is {kind(value)}, not text", meant)
    raise Refused(f"must be text, not {kind(value)}", "write a text")
