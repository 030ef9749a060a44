# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m rdma_dp`` is ``rdma-dp``."""

from __future__ import annotations

import sys

from rdma_dp.cli import main

if __name__ == "__main__":
    sys.exit(main())
