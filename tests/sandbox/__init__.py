# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes cluster of several nodes on one machine, with simulated NICs: for demos and for the cluster tests.

``python -m tests.sandbox up`` starts it, ``down`` removes it without a trace; :class:`Sandbox` is the same for Python.
"""

from __future__ import annotations

from tests.sandbox.cluster import Sandbox
from tests.sandbox.errors import SandboxError
from tests.sandbox.node import Node

__all__ = ["Node", "Sandbox", "SandboxError"]
