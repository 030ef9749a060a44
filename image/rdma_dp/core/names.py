# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that Kubernetes and kubelet must accept: resources, environment variables, device IDs."""

from __future__ import annotations

import hashlib
import re
from typing import Optional, Tuple

MAX_PREFIX = 244  # "requests." in front of it must still be a DNS-1123 subdomain of 253 characters (KUBELET.md rule 17)
MAX_NAME = 63
MAX_DEVICE_ID = 63  # the protocol's own comment; kubelet does not check (rule 22)
MAX_DEVICES = 100000  # of one resource; so a device's number has at most five digits

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_MAX_FRONT = MAX_DEVICE_ID - len(f"-{MAX_DEVICES - 1}")
_LIKE_A_SHARED_ID = re.compile(r".*[.@].*-[0-9]+", re.DOTALL)

Refusal = Tuple[str, str]  # what is wrong, what to write instead

# The same rules as JSON Schema.
NAME_SCHEMA = {"maxLength": MAX_NAME, "pattern": f"^{_NAME.pattern}$"}
PREFIX_SCHEMA = {
    "maxLength": MAX_PREFIX,
    "pattern": rf"^(?!requests\.)(?![a-z0-9.-]*kubernetes\.io$){_LABEL.pattern}(\.{_LABEL.pattern})*$",
}


def refuse_prefix(prefix: str) -> Optional[Refusal]:
    """Why Kubernetes refuses the prefix of a resource, or None (KUBELET.md rules 16 and 17)."""
    if len(prefix) > MAX_PREFIX:
        return f"has {len(prefix)} characters", f"at most {MAX_PREFIX} are allowed"
    if not all(_LABEL.fullmatch(label) for label in prefix.split(".")):
        hint = "lower-case letters, digits, '-' and '.', each part between dots with a letter or digit at both ends"
        corrected = prefix.lower().replace("_", "-")
        if all(_LABEL.fullmatch(label) for label in corrected.split(".")):
            hint += f"; did you mean {corrected!r}?"
        return "is not a DNS subdomain", hint
    if prefix.endswith("kubernetes.io"):
        return "is reserved for Kubernetes itself", "use a domain of your own, or leave it out for 'rdma'"
    if prefix.startswith("requests."):
        return "starts with 'requests.', which Kubernetes keeps for quotas", "leave that part out"
    return None


def refuse_name(name: str) -> Optional[Refusal]:
    """Why Kubernetes refuses the name of a resource, or None (KUBELET.md rule 17)."""
    if not name:
        return "is empty", "name the resource, for example 'hca'"
    if len(name) > MAX_NAME:
        return f"has {len(name)} characters", f"at most {MAX_NAME} are allowed"
    if not _NAME.fullmatch(name):
        hint = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        if name.count("/") == 1 and all(name.split("/")):
            prefix, _unused, rest = name.partition("/")
            hint = f"write resourcePrefix: {prefix} and resourceName: {rest}"
        elif _NAME.fullmatch(name.strip("-_. ")):
            hint += f"; did you mean {name.strip('-_. ')!r}?"
        return "is not a name that Kubernetes accepts", hint
    return None


def devices_variable(resource: str) -> str:
    """The environment variable that lists RDMA device names: ``rdma/hca`` has ``RDMA_DP_RDMA_HCA_DEVICES``."""
    return f"RDMA_DP_{_upper(resource)}_DEVICES"


def pci_variable(resource: str) -> str:
    """The environment variable that lists PCI addresses: ``rdma/hca`` has ``RDMA_DP_RDMA_HCA_PCI``."""
    return f"RDMA_DP_{_upper(resource)}_PCI"


def _upper(resource: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", resource.upper())


def shared_front(prefix: str, name: str, nic_id: str = "") -> str:
    """What stands before ``-<k>`` in the IDs of a shared resource; with a NIC's id, in those of that NIC.

    ``rdma.hca`` and ``rdma.hca@0000:17:00.0``. One that leaves no room for the number is replaced by a hash of it.
    """
    front = f"{prefix}.{name}" + (f"@{nic_id}" if nic_id else "")
    return front if len(front) <= _MAX_FRONT else _hashed(front)


def shared_id(front: str, number: int) -> str:
    """The ID of a virtual device; ``number`` counts from 0."""
    return f"{front}-{number}"


def exclusive_id(nic_id: str) -> str:
    """The ID of a whole NIC: its own id, unless that is too long or could be the ID of a shared resource.

    The second can happen only to a NIC without PCI function that somebody renamed to something like ``rdma.hca-1``.
    """
    if len(nic_id) <= MAX_DEVICE_ID and not _LIKE_A_SHARED_ID.fullmatch(nic_id):
        return nic_id
    return _hashed(nic_id)


def _hashed(text: str) -> str:
    """24 hex digits behind a mark that no name contains: '@' is not allowed in one."""
    return "hash@" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
