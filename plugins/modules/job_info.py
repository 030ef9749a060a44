#!/usr/bin/python
# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether Jobs have ended, which way, and why."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job_info
short_description: Waits until Jobs have ended, whichever way, and tells how and why
version_added: 0.1.0
author:
  - lingjun.rdma contributors (@lingjun-rdma)
description:
  - Waits for several Jobs at once, and for either end of each.
  - M(kubernetes.core.k8s) waits for one condition, so for a Job that failed it waits until the timeout.
  - A Job that failed or has not ended is no failure of the module; look at RV(jobs[].state).
  - >-
    Stops waiting after 15 seconds for a pod that can't start by itself, as with C(ErrImageNeverPull) or
    C(InvalidImageName).
options:
  names:
    description: The names of the Jobs.
    type: list
    elements: str
    required: true
  namespace:
    description: Their namespace.
    type: str
    default: default
  wait:
    description: Wait until all have ended or O(wait_timeout) is over.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most.
    type: int
    default: 300
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - lingjun.rdma.api
  - lingjun.rdma.attributes.info
notes:
  - Needs the permissions to get Jobs and to list pods in the namespace.
seealso:
  - module: kubernetes.core.k8s_log
"""

EXAMPLES = r"""
- name: Wait until the RDMA test has ended
  lingjun.rdma.job_info:
    names: [rdma-hostnetwork-test]
    wait: true
  register: test

- name: Fail with the reason
  ansible.builtin.assert:
    that: test.jobs[0].state == 'complete'
    fail_msg: "{{ test.jobs[0].message }}"
"""

RETURN = r"""
jobs:
  description: The Jobs, in the order of O(names).
  returned: when they could be read
  type: list
  elements: dict
  contains:
    name:
      description: The Job's name.
      type: str
    state:
      description: V(complete), V(failed), or V(running) for one that has not ended.
      type: str
    message:
      description: Why it failed, or what it waits for, in a sentence without its end; empty for a Job that is complete.
      type: str
    stuck:
      description: Whether it has not ended and won't by itself, as its image can't be had.
      type: bool
    pods:
      description: Its pods, the newest last.
      type: list
      elements: dict
      contains:
        name:
          description: The pod's name.
          type: str
        node:
          description: The node that it is bound to; empty while there is none.
          type: str
        phase:
          description: The pod's phase.
          type: str
        reason:
          description: One word for what went wrong, like V(OOMKilled) or V(Unschedulable); empty for a good pod.
          type: str
        message:
          description: Kubernetes' own message, or the container's termination message.
          type: str
        started:
          description: Whether a container has run, so that there can be a log.
          type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lingjun.rdma.plugins.module_utils import _jobs, _module
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import PODS, Resource
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue, NotFound, Problem

JOBS = Resource("/apis/batch/v1", "jobs", "batch")
PAUSE = 1.0  # s between two looks
GRACE = 15.0  # s for which a pod may be stuck: kubelet's view of an image can be a moment old


def look(client: Client, names: list[str], namespace: str) -> list[_jobs.Job]:
    """The Jobs as they are now."""
    try:
        found = [client.get(JOBS, name, namespace) for name in names]
    except NotFound as error:
        raise Problem(f"{error} Names: {', '.join(names)}; compare kubectl -n {namespace} get jobs.") from error
    selector = f"{_jobs.JOB_LABEL} in ({','.join(names)})"
    pods = client.list(PODS, lambda pod: pod, namespace=namespace, label_selector=selector).items
    return [_jobs.job(raw, pods) for raw in found]


def work(client: Client, params: dict[str, Any], wait: bool) -> dict[str, Any]:
    """The module's result."""
    names, namespace = params["names"], params["namespace"]
    if not names:
        raise InvalidValue("The option names is empty; name at least one Job.")
    if params["wait_timeout"] < 0:
        raise InvalidValue(f"wait_timeout is {params['wait_timeout']}; give 0 s or more.")
    deadline = client.clock() + params["wait_timeout"]
    stuck_since: dict[str, float] = {}
    while True:
        jobs = look(client, names, namespace)
        now = client.clock()
        stuck_since = {job.name: stuck_since.get(job.name, now) for job in jobs if job.stuck}
        given_up = {name for name, since in stuck_since.items() if now - since >= GRACE}
        going_on = [job for job in jobs if job.state == _jobs.RUNNING and job.name not in given_up]
        if not wait or not going_on or now >= deadline:
            return {"changed": False, "jobs": [job.as_dict() for job in jobs]}
        client.sleep(min(PAUSE, deadline - now))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_module.common_options(),
            "names": {"type": "list", "elements": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    _module.run(module, lambda client: work(client, module.params, module.params["wait"] and not module.check_mode))


if __name__ == "__main__":
    main()
