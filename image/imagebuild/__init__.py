# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the plugin's and the test Job's image without a registry, a daemon or root.

    debian (packages) ─┐
    machine (way B) ───┴► runtime (what Python needs of them) ─► bytecode ─┐
    wheels (pinned) ───────────────────────────────────────────► bytecode ─┼► layers ─► archive
    application (the package and its generated gRPC code) ─────► bytecode ─┘

Everything between the edges is a :class:`~imagebuild.tree.Tree`: paths with contents, owned by root, without times. So
the same inputs give the same bytes, and the same image ID, on every machine.
"""
