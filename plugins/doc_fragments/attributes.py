# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attributes that the modules document."""

from __future__ import annotations


class ModuleDocFragment:
    # For modules that only read.
    INFO = r"""
attributes:
  check_mode:
    description: Can be run in check mode, where it changes nothing.
    support: full
    details:
      - The module only reads. In check mode it looks once and does not wait.
  diff_mode:
    description: Returns what changes in diff mode.
    support: N/A
    details:
      - The module only reads.
  action_group:
    description: Belongs to an action group, so that C(module_defaults) can set its options.
    support: full
    membership:
      - lingjun.rdma.k8s
"""

    # For modules that change objects.
    CHANGES = r"""
attributes:
  check_mode:
    description: Can be run in check mode, where it changes nothing.
    support: full
    details:
      - Reads the nodes and reports what it would change.
  diff_mode:
    description: Returns what changes in diff mode.
    support: full
    details:
      - Shows per node the labels, taints and schedulability that change, and nothing else.
  action_group:
    description: Belongs to an action group, so that C(module_defaults) can set its options.
    support: full
    membership:
      - lingjun.rdma.k8s
"""
