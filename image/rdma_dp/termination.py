# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container's termination message: kubelet shows it as the reason in the pod's status.

The file exists in a container only (kubelet mounts it); it is never created, so that nothing is written on a host.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

from pathlib import Path

PATH = Path("/dev/termination-log")
LIMIT = 4096  # bytes that kubelet reads


def write(reason: str, path: Path = PATH) -> bool:
    """Writes the reason, cut to what kubelet reads; returns whether there was a place to write it to."""
    if not path.is_file():
        return False
    try:
        path.write_bytes(reason.encode()[:LIMIT])
    except OSError:
        return False  # the same reason is on stderr: a message that can't be left must not hide it
    return True
