# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text tables for a terminal: columns as wide as needed, the whole never wider than the given width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 2
_NARROWEST = 8  # what a column is never cut below
_COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


@dataclass(frozen=True)
class Cell:
    """A text and how to show it where colours are possible."""

    text: str
    colour: str = ""


@dataclass(frozen=True)
class Row:
    """The cells of one line, and notes that stand below it over the whole width."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()


def render(titles: Sequence[str], rows: Sequence[Row], *, width: int, colours: bool) -> str:
    """The table, each line with its line end."""
    widths = _widths([titles, *([cell.text for cell in row.cells] for row in rows)], width)
    lines = [_line([Cell(title, "bold") for title in titles], widths, colours)]
    for row in rows:
        lines.append(_line(row.cells, widths, colours))
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


def _line(cells: Sequence[Cell], widths: Sequence[int], colours: bool) -> str:
    padded = [_fit(cell.text, width) for cell, width in zip(cells, widths, strict=True)]
    if colours:
        padded = [_coloured(text, cell.colour) for text, cell in zip(padded, cells, strict=True)]
    return (" " * _GAP).join(padded).rstrip()


def _fit(text: str, width: int) -> str:
    text = _printable(text)
    return (text if len(text) <= width else text[: width - 2] + "..").ljust(width)


def _printable(text: str) -> str:
    """Kernel names may hold anything; a terminal must not obey it."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour else text
