# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make plugins/module_utils/rdma_core/ mirror image/rdma_dp/core/: a real directory with a relative link for each file.

ansible-test refuses a linked directory but takes linked files; they survive the built tarball and its installation.
"""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
CORE = CHECKOUT / "image" / "rdma_dp" / "core"
LINKS = CHECKOUT / "plugins" / "module_utils" / "rdma_core"


def expected() -> dict[str, str]:
    """Link name to link target, for each file of the core."""
    return {path.name: os.path.relpath(path, LINKS) for path in sorted(CORE.glob("*.py"))}


def actual() -> dict[str, str]:
    """What is there now; a file that is no link counts as a link to nowhere."""
    found = sorted(LINKS.glob("*.py")) if LINKS.is_dir() else []
    return {path.name: os.readlink(path) if path.is_symlink() else "" for path in found}


def main() -> None:
    """Create and remove links until both listings are equal."""
    LINKS.mkdir(exist_ok=True)
    want, have = expected(), actual()
    for name in have:
        if want.get(name) != have[name]:
            (LINKS / name).unlink()
    for name, target in want.items():
        if have.get(name) != target:
            (LINKS / name).symlink_to(target)


if __name__ == "__main__":
    main()
