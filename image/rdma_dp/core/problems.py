# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a config, in sentences, each with the place in the file.

A path names the place as a person would: ``configList[0].selectors.vendors[1]``. Problems are collected, never raised
one by one, and come out in the order in which their places stand in the file.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

Steps = Tuple[object, ...]  # keys and list indices; a key that YAML made a number or a boolean is possible

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_SHOWN = 60
_MOST_LOOKS = 200


@dataclass(frozen=True)
class Problem:
    """One mistake: where (``path``, empty for the file itself), what is wrong, and what to write instead."""

    path: str
    message: str
    hint: str = ""
    steps: Steps = field(default=(), compare=False, repr=False)  # the path, taken apart
    line: int = field(default=0, compare=False)  # in the file, from 1; 0 where there is no file or no telling

    def __str__(self) -> str:
        places = [f"line {self.line}"] if self.line else []
        places += [self.path] if self.path else []
        return ": ".join([*places, self.message]) + (f" ({self.hint})" if self.hint else "")


class ConfigInvalid(Exception):
    """The config can't be used. ``problems`` holds every mistake, in file order; there is at least one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: Tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class Report:
    """Collects the problems of one document."""

    def __init__(self) -> None:
        self._problems: Dict[Tuple[Steps, str], Problem] = {}
        self._looks = 0

    def add(self, steps: Steps, message: str, hint: str = "") -> None:
        """Notes one problem."""
        self._problems.setdefault((steps, message), Problem(path(steps), message, hint, steps))

    def nearest(self, word: str, known: Iterable[str]) -> str:
        """``nearest``, for so many words of a document; a file with more is none of ours, and each takes a while."""
        self._looks += 1
        return nearest(word, known) if self._looks <= _MOST_LOOKS else ""

    def __bool__(self) -> bool:
        return bool(self._problems)

    def in_order_of(self, document: object) -> Tuple[Problem, ...]:
        """All problems, sorted by where their places stand in the document."""
        return in_order_of(document, self._problems.values())


def in_order_of(document: object, problems: Iterable[Problem]) -> Tuple[Problem, ...]:
    """The problems, sorted by where their places stand in the document."""
    # A long list asks for the position of the same key again and again.
    ranks: Dict[int, Dict[object, int]] = {}

    def rank(container: object, step: object) -> int:
        if isinstance(container, Mapping):
            known = ranks.get(id(container))
            if known is None:
                known = ranks[id(container)] = {key: number for number, key in enumerate(container)}
            return known.get(step, len(known))
        return step if isinstance(step, int) else 0

    def position(problem: Problem) -> List[int]:
        place: object = document
        found = []
        for step in problem.steps:
            found.append(rank(place, step))
            if isinstance(place, Mapping):
                place = place.get(step)
            elif isinstance(place, (list, tuple)) and isinstance(step, int) and step < len(place):
                place = place[step]
            else:
                place = None
        return found

    return tuple(sorted(problems, key=position))


def path(steps: Steps) -> str:
    """The place as text: ``("configList", 0, "a b")`` is ``configList[0]["a b"]``."""
    text = ""
    for step in steps:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{show(step)}]"
    return text


def show(value: object) -> str:
    """A value as it may stand in a sentence: short, on one line, printable."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        # Python refuses to print integers of thousands of digits.
        return str(int(value)) if value.bit_length() < 128 else "a huge number"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…"
        quoted = json.dumps(text, ensure_ascii=False)
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in quoted)
    return kind(value)


def kind(value: object) -> str:
    """What sort of value it is, in the words of YAML and JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a value of type {type(value).__name__}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or "" when none is close."""
    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word[:_LONGEST_SHOWN].lower(), by_folded, n=1, cutoff=0.7)
    return by_folded[close[0]] if close else ""
