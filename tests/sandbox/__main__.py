# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.sandbox``."""

from __future__ import annotations

import sys

from tests.sandbox.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
