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


class FileByFile(LoadScopeScheduling):
    """The tests of one file go to one worker, in order: a cluster's state is handed from one to the next."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are given to the workers of ``pytest -n``."""
    return FileByFile(config, log)
