# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for all tests."""

from __future__ import annotations

import os

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# How long one example takes depends on what else the machine does. A CI run tries the same examples each time, so that
# it fails for what the change did; a developer's run looks for new ones.
hypothesis.settings.register_profile("lingjun", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("lingjun")


class OneWorkerForTheCluster(LoadScopeScheduling):
    """All tests that share the sandbox cluster go to one worker, in order; of the others, those of one file."""

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if nodeid.startswith("tests/cluster/") else nodeid.split("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are given to the workers of ``pytest -n``."""
    return OneWorkerForTheCluster(config, log)
