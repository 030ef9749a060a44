# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a Job fares, and how its pods ended. Pure. Private to this collection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.lingjun.rdma.plugins.module_utils._pod_trouble import diagnose

COMPLETE, FAILED, RUNNING = "complete", "failed", "running"
JOB_LABEL = "batch.kubernetes.io/job-name"  # the controller's own, on each pod of a Job
# Nothing that happens in the cluster by itself ends these.
PERMANENT = ("ErrImageNeverPull", "InvalidImageName")
_ENDINGS = {"Complete": COMPLETE, "Failed": FAILED}


@dataclass(frozen=True)
class Pod:
    """A pod of a Job."""

    name: str
    node: str  # "" while no node took it
    phase: str
    reason: str  # one word; "" when it runs or succeeded
    message: str
    started: bool  # a container of it has run, so there may be a log


@dataclass(frozen=True)
class Job:
    """A Job with its pods, the newest last."""

    name: str
    state: str
    message: str  # why it failed, or what it waits for; "" for a good one
    pods: Sequence[Pod]

    @property
    def stuck(self) -> bool:
        """It has not ended, and won't by itself."""
        return self.state == RUNNING and any(pod.reason in PERMANENT for pod in self.pods)

    def as_dict(self) -> Dict[str, Any]:
        """For the module's result."""
        return {**asdict(self), "stuck": self.stuck, "pods": [asdict(pod) for pod in self.pods]}


def job(raw: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Job:
    """A Job from the API's JSON, with the pods of the namespace that belong to it."""
    name, uid = raw["metadata"]["name"], raw["metadata"].get("uid")
    mine = [
        item for item in pods if any(ref.get("uid") == uid for ref in item["metadata"].get("ownerReferences") or [])
    ]
    mine.sort(key=lambda item: (item["metadata"].get("creationTimestamp") or "", item["metadata"]["name"]))
    parsed = [_pod(item) for item in mine]
    state, message = RUNNING, ""
    for condition in (raw.get("status") or {}).get("conditions") or []:
        if condition.get("status") == "True" and condition.get("type") in _ENDINGS:
            state = _ENDINGS[condition["type"]]
            message = (
                ""
                if state == COMPLETE
                else f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
            )
    return Job(name, state, _message(state, message, parsed).rstrip(" ."), parsed)


def _message(state: str, said: str, pods: List[Pod]) -> str:
    if state == COMPLETE:
        return ""
    trouble: Optional[Pod] = next((pod for pod in reversed(pods) if pod.reason), None)
    if trouble is not None:
        where = f" on {trouble.node}" if trouble.node else ""
        return f"pod {trouble.name}{where}: {trouble.reason}: {trouble.message}"
    if state == RUNNING and not pods:
        return "it has no pod yet"
    return said


def _pod(raw: Mapping[str, Any]) -> Pod:
    status = raw.get("status") or {}
    phase = status.get("phase", "")
    trouble = None if phase == "Succeeded" else diagnose(raw)
    return Pod(
        name=raw["metadata"]["name"],
        node=(raw.get("spec") or {}).get("nodeName") or "",
        phase=phase,
        reason=trouble.reason if trouble else "",
        message=trouble.message if trouble else "",
        started=any(_has_run(container) for container in status.get("containerStatuses") or []),
    )


def _has_run(container: Mapping[str, Any]) -> bool:
    state = container.get("state") or {}
    return "running" in state or bool((state.get("terminated") or {}).get("startedAt"))
