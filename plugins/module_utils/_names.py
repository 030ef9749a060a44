# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that this collection and the cluster agree on (DESIGN sections 4 and 8). Private to this collection."""

from __future__ import annotations

MODE_LABEL = "lingjun.rdma/mode"
DRAINING = "draining"  # the label's value while a switch is under way: no plugin may serve the node
RESOURCE = "rdma/hca"
PLUGIN_NAMESPACE = "kube-system"
PLUGIN_SELECTOR = "app.kubernetes.io/name=rdma-dp"
PLUGIN_PREFIX = "rdma-dp-"  # DaemonSet and ConfigMap of a profile: rdma-dp-<profile>
