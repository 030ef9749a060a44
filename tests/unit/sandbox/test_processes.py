# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded process is told from a later one with the same number; ended ones are noticed and explained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.commands import environment
from tests.sandbox.errors import ProgramFailed
from tests.sandbox.processes import Process, ProcessTable, alive, boot_id, log_tail, parse_start_time, start_time

# Fields after the name: state, ppid, ..., the 20th of them (22nd of the line) is the start time. See proc_pid_stat(5).
STAT = (
    "4711 ({name}) {state} 1 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 2609152 240 18446744073709551615\n"
)


@pytest.mark.parametrize("name", ["etcd", "a b", "x) S 1 (y", ")("])
def test_the_start_time_is_found_behind_any_name(name: str) -> None:
    assert parse_start_time(STAT.format(name=name, state="S")) == 987654


def test_a_zombie_does_not_live() -> None:
    assert parse_start_time(STAT.format(name="etcd", state="Z")) is None


@pytest.mark.parametrize(
    ("boot", "started", "lives"),
    [
        ("this", 987654, True),
        ("this", 987655, False),  # the number was given to another process
        ("this", None, False),
        ("other", 987654, False),  # the machine was rebooted
    ],
)
def test_only_the_very_process_counts(boot: str, started: int | None, lives: bool) -> None:
    process = Process("etcd", 4711, 987654, "this", "/x.log")
    assert alive(process, boot=lambda: boot, started=lambda pid: started) is lives


def test_this_process_lives() -> None:
    started = start_time(os.getpid())
    assert started is not None
    assert alive(Process("me", os.getpid(), started, boot_id(), ""))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    """A table whose cgroup is an ordinary directory; it ends what a test left running."""
    (tmp_path / "cgroup").mkdir()
    table = ProcessTable(tmp_path / "records", tmp_path / "cgroup", tmp_path / "logs")
    yield table
    for process in table.all():
        table.stop(process.name, grace=0.0)


def start(table: ProcessTable, script: str) -> Process:
    return table.start("program", ["sh", "-c", script], env=environment())


def test_a_started_program_is_in_its_own_session_in_the_cgroup_and_recorded(table: ProcessTable) -> None:
    process = start(table, "exec sleep 60")
    members = table.cgroup / "cgroup.procs"
    # "0" is what a process writes for itself.
    table.wait("the cgroup joined", 10.0, lambda: members.exists() and members.read_text() == "0\n", "program")
    assert os.getsid(process.pid) == process.pid
    assert table.find("program") == process
    assert table.stop("program")
    assert not alive(process)
    assert table.all() == []


def test_a_program_that_ignores_sigterm_is_killed(table: ProcessTable) -> None:
    process = start(table, "trap '' TERM; echo deaf; while :; do sleep 0.05; done")
    table.wait("deaf", 5.0, lambda: "deaf" in Path(process.log).read_text(), "program")
    assert table.stop("program", grace=0.2)
    assert not alive(process)


def test_stopping_leaves_a_process_alone_that_only_has_the_same_number(table: ProcessTable) -> None:
    process = start(table, "exec sleep 60")
    record = table.records / "other.json"
    other = (
        (table.records / "program.json").read_text().replace(f'"start_time": {process.start_time}', '"start_time": 1')
    )
    record.write_text(other.replace('"name": "program"', '"name": "other"'))
    assert not table.stop("other")
    assert alive(process)


def test_an_ended_program_is_reported_with_its_code_and_last_lines(table: ProcessTable) -> None:
    start(table, "for i in $(seq 30); do echo line $i; done; echo boom >&2; exit 7")
    with pytest.raises(ProgramFailed) as failure:
        table.wait("ready", 10.0, lambda: False, "program")
    message = str(failure.value)
    assert message.startswith("program ended with exit code 7. Its last log lines")
    assert "boom" in message
    assert "line 30" in message
    assert "line 1\n" not in message


def test_a_program_that_is_never_ready_is_named(table: ProcessTable) -> None:
    start(table, "echo waiting; exec sleep 60")
    with pytest.raises(ProgramFailed, match=r"the gate open: not within 0.3 s. program's last log lines"):
        table.wait("the gate open", 0.3, lambda: False, "program")


def test_a_log_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    assert "no log" in log_tail(tmp_path / "x.log")
