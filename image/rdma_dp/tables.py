# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text tables for a terminal: columns as wide as needed, the whole never wider than the given width.

Nothing is cut: a text that is too long for its column goes on in the next line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

_GAP = 2
_NARROWEST = 8  # what a column is never made narrower than
_COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


@dataclass(frozen=True)
class Cell:
    """A text and how to show it where colours are possible."""

    text: str
    colour: str = ""


@dataclass(frozen=True)
class Row:
    """The cells of one line, or of several where a text needs them, and notes below them over the whole width."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()


def render(titles: Sequence[str], rows: Sequence[Row], *, width: int, colours: bool) -> str:
    """The table, each line with its line end."""
    widths = _widths([titles, *([cell.text for cell in row.cells] for row in rows)], width)
    lines = _lines([Cell(title, "bold") for title in titles], widths, colours)
    for row in rows:
        lines += _lines(row.cells, widths, colours)
        for note in row.notes:
            lines += textwrap.wrap(
                _printable(note), width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
            )
    return "\n".join(lines) + "\n"


def _widths(texts: Sequence[Sequence[str]], width: int) -> list[int]:
    """As wide as the widest cell; where that is too much, the widest column gives way first."""
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    while sum(widths) + _GAP * (len(widths) - 1) > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _lines(cells: Sequence[Cell], widths: Sequence[int], colours: bool) -> list[str]:
    wrapped = [_wrapped(cell.text, width) for cell, width in zip(cells, widths, strict=True)]
    found = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        padded = [part.ljust(width) for part, width in zip(parts, widths, strict=True)]
        if colours:
            padded = [_coloured(text, cell.colour) for text, cell in zip(padded, cells, strict=True)]
        found.append((" " * _GAP).join(padded).rstrip())
    return found


def _wrapped(text: str, width: int) -> list[str]:
    """Parts that fit: broken at white space, else behind a slash or a comma, else wherever the width ends."""
    found: list[str] = []
    for word in _printable(text).split(" "):
        joined = f"{found[-1]} {word}" if found else word
        if len(joined) <= width:
            found[-1:] = [joined]
            continue
        while len(word) > width:
            end = max(word.rfind(mark, 0, width) for mark in "/,") + 1 or width
            found.append(word[:end])
            word = word[end:]
        found.append(word)
    return found


def _printable(text: str) -> str:
    """Kernel names may hold anything; a terminal must not obey it."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour else text
