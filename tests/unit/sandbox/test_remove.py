# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking away removes what is the sandbox's, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import bootstrap, remove
from tests.sandbox.errors import SandboxError
from tests.sandbox.layout import Layout, layout_of


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """A prepared sandbox without a single process."""
    layout = Layout(tmp_path / "state", runtime=tmp_path / "run")
    layout.runtime.mkdir()
    bootstrap.prepare_state(layout)
    for name in ("pki", "nodes/node-a/nics/sys", "logs"):
        (layout.state / name).mkdir(parents=True)
    layout.kubeconfig.touch()
    yield layout
    remove.remove(layout)
    assert not layout.run.exists()


def test_everything_of_ours_goes(layout: Layout) -> None:
    assert remove.exists(layout)
    assert remove.remove(layout) == 0
    assert not layout.state.exists()
    assert not remove.exists(layout)


def test_removing_twice_is_fine(layout: Layout) -> None:
    remove.remove(layout)
    assert remove.remove(layout) == 0


def test_files_of_others_stay(layout: Layout) -> None:
    (layout.state / "notes.txt").write_text("mine")
    remove.remove(layout)
    assert [path.name for path in layout.state.iterdir()] == ["notes.txt"]


def test_logs_stay_after_a_failed_start_and_go_with_down(layout: Layout) -> None:
    (layout.logs / "etcd.log").touch()
    remove.remove(layout, keep_logs=True)
    assert (layout.logs / "etcd.log").exists()
    assert not layout.kubeconfig.exists()
    assert not remove.exists(layout)  # the next `up` has nothing to clean
    remove.remove(layout)
    assert not layout.state.exists()


def test_a_directory_that_was_never_ours_is_not_touched(tmp_path: Path) -> None:
    state = tmp_path / "home"
    (state / "nodes").mkdir(parents=True)
    (state / "logs").mkdir()
    (state / "kubeconfig").write_text("the user's own")
    remove.remove(layout_of(state))
    assert {path.name for path in state.iterdir()} == {"nodes", "logs", "kubeconfig"}


def test_a_directory_with_other_things_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "work.txt").touch()
    with pytest.raises(SandboxError, match="not empty and not a sandbox's"):
        bootstrap.prepare_state(layout_of(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["work.txt"]


def test_a_file_is_no_state_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxError, match="can't be used"):
        bootstrap.prepare_state(layout_of(tmp_path / "file"))


def test_a_state_directory_whose_mark_was_deleted_is_still_ours_while_it_runs(layout: Layout) -> None:
    (layout.state / "SANDBOX").unlink()
    remove.remove(layout)
    assert not layout.state.exists()
