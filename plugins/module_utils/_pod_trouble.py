# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod does not serve: the one thing in its status to read first. Pure. Private to this collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils import _pods

# Kubelet's words for "give me a moment".
STARTING = ("ContainerCreating", "PodInitializing", "Pending")
_REMEDIES = {
    "ErrImageNeverPull": "load the image on the node, or set another pull policy",
    "InvalidImageName": "correct the image name",
    "ErrImagePull": "check the image name, the registry and the pull secrets",
    "ImagePullBackOff": "check the image name, the registry and the pull secrets",
    "CreateContainerConfigError": "create what the message misses, or correct the pod's settings",
    "CrashLoopBackOff": "read kubectl logs --previous of the pod",
    "Unschedulable": "free the resources, or add the toleration that the message asks for",
}


@dataclass(frozen=True)
class Trouble:
    """What keeps a pod from being ready."""

    reason: str  # one word, Kubernetes' own where it has one
    message: str

    def __str__(self) -> str:
        remedy = _REMEDIES.get(self.reason)
        return f"{self.reason}: {self.message}" + (f" ({remedy})" if remedy else "")


def diagnose(pod: Mapping[str, Any]) -> Optional[Trouble]:
    """The pod's trouble, or None when it is Ready. ``pod`` is the API's JSON."""
    if _pods.is_ready(pod):
        return None
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return Trouble("Terminating", "the pod is on its way out")
    if status.get("phase") == "Failed":
        return _failed(status)
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Trouble(condition.get("reason") or "Unschedulable", _line(condition.get("message")))
    starting = None
    for name, container in _containers(status):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting is not None:
            reason = waiting.get("reason") or "Waiting"
            if reason in STARTING:
                starting = starting or Trouble(
                    reason, _line(waiting.get("message")) or f"container {name} is being started"
                )
                continue
            return Trouble(reason, _died(name, container) or _line(waiting.get("message")) or f"container {name} waits")
        if terminated is not None and terminated.get("exitCode"):
            return Trouble(terminated.get("reason") or "Error", _ending(name, terminated))
    if starting:
        return starting
    unready = [
        name
        for name, container in _containers(status)
        if (container.get("state") or {}).get("running") is not None and not container.get("ready")
    ]
    if unready:
        return Trouble("NotReady", f"container {', '.join(unready)} runs, but its readiness probe does not succeed")
    return Trouble("Pending", "kubelet has not begun with the pod")


def _failed(status: Mapping[str, Any]) -> Trouble:
    message = _line(status.get("message"))
    for name, container in _containers(status):
        terminated = (container.get("state") or {}).get("terminated")
        if not message and terminated and terminated.get("exitCode"):
            message = _ending(name, terminated)
    return Trouble(status.get("reason") or "Failed", message or "the pod has failed")


def _containers(status: Mapping[str, Any]) -> Iterator[Tuple[str, Mapping[str, Any]]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or []:
            yield container.get("name", ""), container


def _died(name: str, container: Mapping[str, Any]) -> str:
    """How the container ended last time; its termination message says more than kubelet's "back-off 10s restarting"."""
    last = (container.get("lastState") or {}).get("terminated")
    return _ending(name, last) if last else ""


def _ending(name: str, terminated: Mapping[str, Any]) -> str:
    said = _line(terminated.get("message"))
    return f"container {name} ended with exit code {terminated.get('exitCode')}" + (f": {said}" if said else "")


def _line(text: Optional[str], most: int = 500) -> str:
    words = " ".join((text or "").split())
    return words if len(words) <= most else words[: most - 1] + "…"
