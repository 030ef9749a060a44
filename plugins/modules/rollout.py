#!/usr/bin/python
# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for a DaemonSet's rollout and says per node what keeps it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: Waits for a DaemonSet's rollout and tells per node what keeps it
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - >-
    Waits until every node that is to run a pod of the DaemonSet has an available one, made of the current template
    (of any template if the update strategy is C(OnDelete)). Judges by itself; the state from before the controller
    saw the change is not taken for done.
  - Says for each node without such a pod why, from the pod's status and the events.
  - >-
    A failure that waiting does not mend, such as C(ErrImageNeverPull), C(InvalidImageName) or pods which a quota or
    Pod Security refuses to create (C(FailedCreate)), ends the wait after 10 seconds.
options:
  name:
    description: The DaemonSet's name.
    type: str
    required: true
  namespace:
    description: The DaemonSet's namespace.
    type: str
    default: kube-system
  wait_timeout:
    description: Seconds to wait at most.
    type: int
    default: 300
  allow_empty:
    description: Take a DaemonSet that selects no node for done; else that is an error.
    type: bool
    default: false
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - lingjun.rdma.api
  - lingjun.rdma.attributes.info
notes:
  - >-
    Needs the permissions to get the DaemonSet, to list pods and events in its namespace, and to list nodes.
  - >-
    In check mode a DaemonSet that does not exist is no error, as an earlier task would have made it; a rollout that
    is not done is none either.
seealso:
  - module: lingjun.rdma.allocatable_info
"""

EXAMPLES = r"""
- name: Wait for the plugin of the shared profile
  lingjun.rdma.rollout:
    name: rdma-dp-shared
    namespace: kube-system
    wait_timeout: 180

- name: The exclusive profile may have no node yet
  lingjun.rdma.rollout:
    name: rdma-dp-exclusive
    allow_empty: true
"""

RETURN = r"""
desired:
  description: How many nodes are to run a pod.
  returned: when the DaemonSet could be read
  type: int
updated:
  description: On how many of them there is a pod of the current template.
  returned: when the DaemonSet could be read
  type: int
available:
  description: On how many of them there is an available pod.
  returned: when the DaemonSet could be read
  type: int
failures:
  description:
    - What keeps the rollout, by node; empty when it is done.
    - Not called C(failed), which Ansible replaces by true or false.
  returned: when the DaemonSet could be read
  type: list
  elements: dict
  contains:
    node:
      description: The node's name; empty if no node could be told.
      type: str
    pod:
      description: The pod's name; empty if there is none.
      type: str
    reason:
      description: >-
        One word, like V(ImagePullBackOff), V(CrashLoopBackOff), V(Unschedulable), V(CreateContainerConfigError),
        V(FailedCreate), V(NotReady), V(Outdated), V(NoPod).
      type: str
    message:
      description: Kubernetes' own message; of a crash the container's termination message.
      type: str
"""

from datetime import datetime, timedelta, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lingjun.rdma.plugins.module_utils import _module, _names, _nodes, _rollout
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import DAEMON_SETS, EVENTS, NODES, PODS
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue, NotFound, Problem

PAUSE = 1.0  # s between two looks at the DaemonSet, which is one small object
LOOK_EVERY = 2.0  # s between two looks at its pods, at least; five times as long as such a look takes
# What looks permanent must look so for this long: events lag, and a retry of the controller may be on its way.
GRACE = 10.0
# The controller learns of labels set a moment ago a little later; so long the numbers may be from before.
SETTLE = 5.0
# A FailedCreate event from before this run counts if it is no older, s: the controller's longest back-off is longer.
EVENT_AGE = 60.0
PODS_WITH_EVENTS = 5  # of how many pods that don't start the events are asked for


class Task:
    """One run of the module."""

    def __init__(self, client: Client, params: dict[str, Any]) -> None:
        self.client = client
        self.name, self.namespace = params["name"], params["namespace"]
        self.allow_empty = params["allow_empty"]
        self.timeout = params["wait_timeout"]
        self.daemon_set = self.read()
        self.found: list[_rollout.Failure] = []

    def read(self) -> _rollout.DaemonSet:
        return _rollout.parse(self.client.get(DAEMON_SETS, self.name, self.namespace))

    def nodes(self) -> list[str]:
        """The nodes that the node selector matches; taints and affinity may leave some of them out."""
        listing = self.client.list(
            NODES, _nodes.parse, label_selector=self.daemon_set.node_selector, metadata_only=True
        )
        return _nodes.names_of(listing.items)

    def look(self) -> None:
        """Find out what keeps the rollout."""
        daemon_set = self.daemon_set

        def reduce(raw: dict[str, Any]) -> _rollout.Pod | None:
            return _rollout.pod(raw, daemon_set)

        pods = self.client.list(PODS, reduce, namespace=self.namespace, label_selector=daemon_set.pod_selector).items
        refused = self.refused() if len(pods) < max(daemon_set.desired, 1) else ""
        nodes = self.nodes() if len(pods) < max(daemon_set.desired, 1) else []
        self.found = _rollout.failures(daemon_set, pods, nodes, refused)

    def refused(self) -> str:
        """Why the controller can't make pods, when it said so lately."""
        events = self.events(f"involvedObject.kind=DaemonSet,involvedObject.name={self.name},reason=FailedCreate")
        mine = [
            event for event in events if (event.get("involvedObject") or {}).get("uid") in ("", self.daemon_set.uid)
        ]
        now = (
            datetime.now(timezone.utc)
            if self.client.server_time is None
            else datetime.fromtimestamp(self.client.server_time, timezone.utc)
        )
        return _rollout.latest_event(mine, (now - timedelta(seconds=EVENT_AGE)).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def explain(self) -> None:
        """Add to pods that don't start what their events say: a missing volume or ConfigMap shows nowhere else."""
        for failure in _rollout.starting(self.found)[:PODS_WITH_EVENTS]:
            events = self.events(f"involvedObject.kind=Pod,involvedObject.name={failure.pod},type=Warning")
            said = _rollout.latest_event(events, "")
            if said:
                better = _rollout.Failure(failure.node, failure.pod, failure.reason, said)
                self.found[self.found.index(failure)] = better

    def events(self, selector: str) -> list[dict[str, Any]]:
        return self.client.list(EVENTS, lambda event: event, namespace=self.namespace, field_selector=selector).items

    def wait(self) -> None:
        """Return when the rollout is done; raise Problem when it won't be."""
        start = self.client.clock()
        next_look = start + PAUSE
        permanent_since: dict[_rollout.Failure, float] = {}
        while True:
            now = self.client.clock()
            if self.daemon_set.complete:
                # In sight of the nodes, or the numbers have had time to become true.
                settled = now >= start + SETTLE or len(self.nodes()) == self.daemon_set.desired
                if settled and (self.daemon_set.desired or self.allow_empty):
                    self.found = []
                    return
                if settled and now >= start + SETTLE:
                    raise Problem(self.selects_nothing(), **self.result())
            elif now >= next_look:
                self.look()
                # A large cluster is not asked for all its pods every second.
                next_look = self.client.clock() + max(LOOK_EVERY, 5 * (self.client.clock() - now))
                permanent_since = {item: permanent_since.get(item, now) for item in _rollout.permanent(self.found)}
                if permanent_since and now - min(permanent_since.values()) >= GRACE:
                    self.explain()
                    self.fail("can't succeed")
            if now >= start + self.timeout:
                self.look()
                self.explain()
                self.fail(f"was not done after {self.timeout} s")
            self.client.sleep(min(PAUSE, max(0.0, start + self.timeout - now)))
            self.daemon_set = self.read()

    def fail(self, ended: str) -> None:
        raise Problem(_rollout.message(self.daemon_set, self.found, ended), **self.result())

    def selects_nothing(self) -> str:
        return (
            f"The DaemonSet {self.namespace}/{self.name} selects no node: none has the labels"
            f" {self.daemon_set.node_selector or '(any)'} and taints that its pods tolerate. Label the nodes, or set"
            " allow_empty."
        )

    def result(self) -> dict[str, Any]:
        return {
            "changed": False,
            "desired": self.daemon_set.desired,
            "updated": self.daemon_set.updated,
            "available": self.daemon_set.available,
            "failures": [item.as_dict() for item in self.found],
        }


def work(client: Client, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The module's result; raises Problem when the rollout is not done in time."""
    if params["wait_timeout"] < 0:
        raise InvalidValue(f"wait_timeout is {params['wait_timeout']}; give 0 s or more.")
    try:
        task = Task(client, params)
        if not check_mode:
            task.wait()
        elif not task.daemon_set.complete:
            task.look()
    except NotFound as error:
        if check_mode:
            return {"changed": False, "desired": 0, "updated": 0, "available": 0, "failures": []}
        raise Problem(
            f"The namespace {params['namespace']} has no DaemonSet {params['name']}; compare kubectl get daemonsets"
            " --all-namespaces."
        ) from error
    return task.result()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_module.common_options(),
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": _names.PLUGIN_NAMESPACE},
            "wait_timeout": {"type": "int", "default": 300},
            "allow_empty": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    _module.run(module, lambda client: work(client, module.params, module.check_mode))


if __name__ == "__main__":
    main()
