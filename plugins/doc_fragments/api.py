# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation that the modules share which talk to the Kubernetes API."""

from __future__ import annotations


class ModuleDocFragment:
    # The options besides those of kubernetes.core.k8s_auth_options.
    DOCUMENTATION = r"""
options:
  request_timeout:
    description:
      - Seconds that one attempt of a request may take, from connecting to the last byte of the answer.
      - Also bounds a credential plugin (C(exec)) of the kubeconfig.
    type: int
    default: 30
  retries:
    description:
      - How often a request is sent again after a lost connection or an answer 429, 500, 502, 503 or 504.
      - The pause before doubles from half a second; the server's C(Retry-After) is followed up to ten seconds.
    type: int
    default: 4
requirements:
  - python >= 3.11
  - kubernetes >= 35.0.0
notes:
  - >-
    Runs where the kubernetes library and a way to the API server are, as a rule on C(localhost), once for the whole
    cluster.
  - The options can be set once for all modules with C(module_defaults) and the group C(group/lingjun.rdma.k8s).
"""

    # Which nodes.
    NODES = r"""
options:
  nodes:
    description:
      - The names of the nodes, as C(kubectl get nodes) shows them.
      - >-
        If one does not exist, the module fails, names the node that each unknown name probably means, and changes
        nothing.
      - Exactly one of O(nodes) and O(label_selectors) is required.
    type: list
    elements: str
  label_selectors:
    description:
      - Label selectors which a node must match all, like V(alibabacloud.com/lingjun-worker=true) or V(zone in (a,b\)).
      - It is an error if no node matches.
    type: list
    elements: str
"""
