# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian package as the build sees it: a name, its control paragraph, its files."""

from __future__ import annotations

from dataclasses import dataclass

from imagebuild.tree import Tree


@dataclass(frozen=True)
class Package:
    """One package; ``name`` is empty for files that no package owns."""

    name: str
    control: str  # the control paragraph, as dpkg prints it
    files: Tree

    @property
    def version(self) -> str:
        """Debian's version; empty where there is no control paragraph."""
        return field(self.control, "Version")


def field(paragraph: str, name: str) -> str:
    """The one-line value of a field, or an empty string."""
    for line in paragraph.splitlines():
        key, colon, value = line.partition(":")
        if colon and key == name:
            return value.strip()
    return ""
