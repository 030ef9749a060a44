# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A text as plain values, JSON or YAML by content, without losing what the usual parsers swallow.

Kept: keys that are given twice, and YAML scalars whose meaning depends on who reads them (``on``, ``0x15b3``,
``0000:17:00.0``). PyYAML is loaded only when it is needed, as start time matters (KUBELET.md rule 44): a mounted
``config.json`` without mistakes does without.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from rdma_dp.core.problems import ConfigInvalid, Problem, Steps, path, show

if TYPE_CHECKING:
    import yaml

_LONGEST_JSON_WITH_LINES = 256 * 1024  # characters; YAML needs seconds for more


class Object(dict[Any, Any]):
    """A mapping that remembers which of its keys were given more than once."""

    twice: tuple[object, ...] = ()


class Ambiguous(str):
    """An unquoted YAML scalar that is no text to some readers: its text, as it stands in the file."""

    reading: str = ""  # "the number 5555"
    value: object = None  # 5555; None for what is neither a number nor a flag


@dataclass(frozen=True)
class Document:
    """A text's values; ``node`` has the places in the text where YAML was needed."""

    value: Any
    node: yaml.Node | None = None


def read(text: str) -> Document:
    """The text's values. Raises ConfigInvalid with the one problem that ended the reading."""
    try:
        if text.lstrip()[:1] in ("{", "["):
            return _read_json_or_flow(text)
        return _read_yaml(text)
    except RecursionError:
        raise ConfigInvalid([Problem("", "is nested too deeply", "a config has five levels")]) from None


def _read_json_or_flow(text: str) -> Document:
    """JSON; failing that, YAML in its flow style, which also begins with a brace."""
    try:
        return Document(json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant))
    except ValueError as error:
        try:
            return _read_yaml(text)
        except ConfigInvalid:
            raise ConfigInvalid([_json_problem(error)]) from None


def _json_problem(error: ValueError) -> Problem:
    if not isinstance(error, json.JSONDecodeError):
        return Problem("", f"is not JSON: {error}")
    if error.msg == "Extra data":
        return Problem("", "has more text after the end of the JSON", "keep one document", line=error.lineno)
    hint = "a comma too many, or one that is missing, is a common cause"
    return Problem("", f"is not JSON: column {error.colno}: {error.msg}", hint, line=error.lineno)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _object(pairs: list[tuple[str, object]]) -> Object:
    found = Object(pairs)
    if len(found) < len(pairs):
        found.twice = repeated(key for key, _unused in pairs)
    return found


def repeated(keys: Iterable[Hashable]) -> tuple[object, ...]:
    """Those that come more than once, each once."""
    return tuple(key for key, count in Counter(keys).items() if count > 1)


def _read_yaml(text: str) -> Document:
    from rdma_dp import strict_yaml

    return Document(*strict_yaml.load(text))


def mistakes(value: object, remedy: Callable[[Steps, str, object], str]) -> Iterator[Problem]:
    """What the values themselves don't show any more: keys given twice, and ambiguous scalars.

    ``remedy`` says what to write instead of such a scalar: its place, its text, and the number or flag that it may be.
    """
    seen: set[int] = set()  # an alias can stand in many places, and even inside itself

    def walk(value: object, steps: Steps) -> Iterator[Problem]:
        if isinstance(value, Ambiguous):
            yield _ambiguity(value, steps, remedy)
        elif isinstance(value, (Mapping, list)) and id(value) not in seen:
            seen.add(id(value))
            for key in getattr(value, "twice", ()):
                place = (*steps, key)
                yield Problem(path(place), "is given twice", "keep one of them", place)
            for step, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
                yield from walk(entry, (*steps, step))

    yield from walk(value, ())


def _ambiguity(value: Ambiguous, steps: Steps, remedy: Callable[[Steps, str, object], str]) -> Problem:
    message = f"{show(str(value))[1:-1]} without quotes is {value.reading} to some readers of YAML, and text to others"
    return Problem(path(steps), message, remedy(steps, str(value), value.value), steps)


def line_finder(document: Document, text: str) -> Callable[[Steps], int]:
    """A function that says on which line of the text (from 1) a place of the document is; 0 when it can't."""
    node = document.node
    if node is None and len(text) <= _LONGEST_JSON_WITH_LINES:
        # JSON that is no YAML (tabs, some escapes): the problems are told without lines.
        with contextlib.suppress(ConfigInvalid, RecursionError):
            node = _read_yaml(text).node

    if node is None:
        return lambda steps: 0
    from rdma_dp import strict_yaml

    places = strict_yaml.Places(node)
    return lambda steps: places.line(steps) if steps else 0


def first_line_of_block(document: Document, place: Steps) -> int:
    """On which line of its text a block of text (``|``) at ``place`` begins; 0 for text of another style."""
    if document.node is None:
        return 0
    from rdma_dp import strict_yaml

    return strict_yaml.Places(document.node).first_line_of_block(place)
