# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML that must mean one thing: PyYAML with its lenient corners closed.

PyYAML follows YAML 1.1, Kubernetes' tools partly 1.1 and partly 1.2. A plain scalar that these read differently, or
whose number hides what was written (0x15b3, 0017, 0000:17:00.0 is sexagesimal), comes out as ``documents.Ambiguous``.
https://yaml.org/type/ (1.1), https://yaml.org/spec/1.2.2/#103-core-schema (1.2)
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

from rdma_dp.core.problems import ConfigInvalid, Problem, Steps, kind, show
from rdma_dp.documents import Ambiguous, Object, repeated

_TAG = "tag:yaml.org,2002:"

# What is the same in YAML 1.1, YAML 1.2 and JSON.
_CLEAR = {
    "int": re.compile(r"-?(0|[1-9][0-9]*)"),
    "float": re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+][0-9]+)?"),
    "bool": re.compile(r"[Tt]rue|TRUE|[Ff]alse|FALSE"),
}
# Text to PyYAML, a number to readers of YAML 1.2 and to Helm: 1e3, 10e5, 0o17, 0089.
_NUMBER_IN_1_2 = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+")


def load(text: str) -> tuple[Any, yaml.Node | None]:
    """The values of the text's only document, and its nodes. Raises ConfigInvalid."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return (None if node is None else loader.construct_document(node)), node
    except yaml.composer.ComposerError as error:
        if "single document" in str(error):
            message, hint = "holds more than one YAML document", "keep the one with the config"
            raise ConfigInvalid([Problem("", message, hint, line=_line(error.problem_mark))]) from None
        raise ConfigInvalid([_problem(error)]) from None
    except yaml.MarkedYAMLError as error:
        raise ConfigInvalid([_problem(error)]) from None
    except yaml.reader.ReaderError as error:
        message = f"has the character U+{error.character:04X}, which YAML does not allow"
        line = text.count("\n", 0, error.position) + 1
        raise ConfigInvalid([Problem("", message, "remove it", line=line)]) from None


def _problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    column = f"column {mark.column + 1}: " if mark else ""
    text = "; ".join(part for part in (error.context, error.problem) if part)
    hint = "indent with spaces, not with tabs" if "\\t" in text else "check indentation, colons and quotes there"
    if "alias" in text:
        hint = 'put a text that begins with * in quotes: "*"'
    if isinstance(error, yaml.constructor.ConstructorError):
        hint = "write plain mappings, lists and values"
    return Problem("", f"is not YAML: {column}{text}", hint, line=_line(mark))


def _line(mark: yaml.Mark | None) -> int:
    return mark.line + 1 if mark else 0


class _Loader(yaml.SafeLoader):
    """Registers its constructors below."""

    def object(self, node: yaml.Node) -> Iterator[Object]:
        """A mapping; keys that stand in it twice are noted, keys that come by merging (``<<``) may be overridden."""
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "not a mapping", node.start_mark)
        found = Object()
        yield found
        own = [self._key(key) for key, _unused in node.value if key.tag != _TAG + "merge"]
        found.twice = repeated(own)
        self.flatten_mapping(node)
        for key, value in node.value:
            found[self._key(key)] = self.construct_object(value, deep=True)

    def _key(self, node: yaml.Node) -> Hashable:
        key = self.construct_object(node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(None, None, f"a key is {kind(key)}", node.start_mark)
        return key

    def scalar(self, node: yaml.ScalarNode) -> Any:
        """A number, a boolean or a date, if there is only one way to read it."""
        name = node.tag.removeprefix(_TAG)
        try:
            value = getattr(yaml.SafeLoader, f"construct_yaml_{name}")(self, node)
        except (ValueError, OverflowError, KeyError, AttributeError):
            value = None  # 2026-13-45 looks like a date, 0x_ like a number; or a tag that does not fit
        clear = name in _CLEAR and _CLEAR[name].fullmatch(node.value)
        if value is not None and (clear or node.style is not None):
            return value
        if node.style is None:
            return _ambiguous(node.value, value)
        raise yaml.constructor.ConstructorError(None, None, f"not of type {name}", node.start_mark)

    def text(self, node: yaml.ScalarNode) -> str:
        """Text, if it is text to all readers."""
        value = str(self.construct_scalar(node))
        if node.style is None and _NUMBER_IN_1_2.fullmatch(value):
            return _ambiguous(value, int(value, 0) if value.startswith("0o") else _number(float(value)))
        return value


_Loader.add_constructor(_TAG + "map", _Loader.object)
_Loader.add_constructor(_TAG + "str", _Loader.text)
for _name in ("int", "float", "bool", "timestamp"):
    _Loader.add_constructor(_TAG + _name, _Loader.scalar)


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


def _ambiguous(text: str, value: object) -> Ambiguous:
    found = Ambiguous(text)
    if isinstance(value, (int, float)):
        found.value = value
        found.reading = show(value) if isinstance(value, bool) else f"the number {show(value)}"
    else:
        found.reading = "a date or a number"
    return found


class Places:
    """Where in its text the places of a document are."""

    def __init__(self, node: yaml.Node) -> None:
        self._root = node
        self._pairs: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}  # by the id of a mapping's node

    def line(self, steps: Steps) -> int:
        """The line (from 1) of the place, or of the part of the way to it that exists."""
        found, _unused = self._follow(steps)
        return found

    def first_line_of_block(self, steps: Steps) -> int:
        """The line (from 1) on which the block of text at the place begins; 0 for text of another style."""
        _unused, node = self._follow(steps)
        return node.start_mark.line + 2 if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") else 0

    def _follow(self, steps: Steps) -> tuple[int, yaml.Node]:
        node = self._root
        found = _line(node.start_mark)
        for step in steps:
            if isinstance(node, yaml.MappingNode):
                pair = self._pair(node, step)
                if pair is None:
                    break
                found, node = _line(pair[0].start_mark), pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                found = _line(node.start_mark)
            else:
                break
        return found, node

    def _pair(self, node: yaml.MappingNode, step: object) -> tuple[yaml.Node, yaml.Node] | None:
        if id(node) not in self._pairs:
            # The last of equal keys is the one that counts, and the one to remove.
            scalars = ((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
            self._pairs[id(node)] = {key.value: (key, value) for key, value in scalars}
        return self._pairs[id(node)].get(step) if isinstance(step, str) else None


class _Dumper(yaml.SafeDumper):
    """Writes so that every reader of YAML, and ``load``, get the same values back."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        """IDs and names with digits in quotes."""
        plain = re.fullmatch(r"[A-Za-z_/]+", data)
        return self.represent_scalar(_TAG + "str", data, style=None if plain else '"')


_Dumper.add_representer(str, _Dumper.text)


def dump(document: object) -> str:
    """The document as YAML, keys in their order."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)
