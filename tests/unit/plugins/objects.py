# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, pods and DaemonSets as the API server gives them, short to write."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def node(
    name: str,
    mode: str | None = None,
    *,
    ready: bool = True,
    devices: str | None = None,
    capacity: str | None = None,
    labels: dict[str, str] | None = None,
    taints: list[Json] | None = None,
    unschedulable: bool = False,
    address: str = "",
) -> Json:
    """A Node; ``devices`` is its allocatable rdma/hca."""
    status: Json = {
        "allocatable": {"cpu": "8", **({"rdma/hca": devices} if devices is not None else {})},
        "capacity": {"cpu": "8"},
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {
                "type": "Ready",
                "status": "True" if ready else "Unknown",
                "reason": "KubeletReady" if ready else "NodeStatusUnknown",
            },
        ],
        "addresses": [{"type": "InternalIP", "address": address}] if address else [],
    }
    if capacity or devices is not None:
        status["capacity"]["rdma/hca"] = capacity or devices
    spec: Json = {**({"taints": taints} if taints else {}), **({"unschedulable": True} if unschedulable else {})}
    mode_label = {"lingjun.rdma/mode": mode} if mode else {}
    return {
        "metadata": {"name": name, "labels": {"pool": "h20", **mode_label, **(labels or {})}},
        "spec": spec,
        "status": status,
    }


def container(name: str = "main", limits: dict[str, str] | None = None, **more: Any) -> Json:
    """A container that asks for ``limits``."""
    return {"name": name, **({"resources": {"limits": limits}} if limits else {}), **more}


def pod(
    name: str,
    node: str | None,
    *containers: Json,
    namespace: str = "default",
    phase: str = "Running",
    init: list[Json] | None = None,
    owner: str = "",
    labels: dict[str, str] | None = None,
    terminating: bool = False,
    ready: bool = True,
    statuses: list[Json] | None = None,
    uid: str = "",
) -> Json:
    """A Pod; ``owner`` is Kind/name."""
    meta: Json = {"name": name, "namespace": namespace, "labels": labels or {}}
    if owner:
        kind, _slash, owner_name = owner.partition("/")
        meta["ownerReferences"] = [{"kind": kind, "name": owner_name, "controller": True, "uid": uid}]
    if terminating:
        meta["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    return {
        "metadata": meta,
        "spec": {
            "containers": list(containers) or [container()],
            **({"nodeName": node} if node else {}),
            **({"initContainers": init} if init else {}),
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": statuses or [],
        },
    }


def hca(amount: int | str = 1, name: str = "main", **more: Any) -> Json:
    """A container that asks for rdma/hca."""
    return container(name, {"rdma/hca": str(amount)}, **more)


def plugin_pod(node: str, profile: str = "shared", **more: Any) -> Json:
    """A pod of the DaemonSet rdma-dp-<profile>."""
    return pod(
        f"rdma-dp-{profile}-{node}",
        node,
        namespace="kube-system",
        owner=f"DaemonSet/rdma-dp-{profile}",
        labels={"app.kubernetes.io/name": "rdma-dp", "pod-template-generation": "1"},
        uid=f"uid-{profile}",
        **more,
    )


def daemon_set(
    profile: str = "shared", *, desired: int, updated: int | None = None, available: int | None = None, **more: Any
) -> Json:
    """The DaemonSet rdma-dp-<profile> with the controller's numbers."""
    return {
        "metadata": {
            "name": f"rdma-dp-{profile}",
            "namespace": "kube-system",
            "uid": f"uid-{profile}",
            "generation": more.get("generation", 1),
            "annotations": {"deprecated.daemonset.template.generation": str(more.get("template", 1))},
        },
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": "rdma-dp"}},
            "template": {"spec": {"nodeSelector": {"lingjun.rdma/mode": profile}}},
            "updateStrategy": {"type": more.get("strategy", "RollingUpdate")},
        },
        "status": {
            "observedGeneration": more.get("observed", 1),
            "desiredNumberScheduled": desired,
            "updatedNumberScheduled": desired if updated is None else updated,
            "numberAvailable": desired if available is None else available,
        },
    }
