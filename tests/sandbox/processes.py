# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-running programs: started into a session of their own, recorded by pid and start time, ended by that record."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.sandbox.errors import ProgramFailed

# Joins the sandbox's cgroup, so that `down` finds the process even when its record is lost; takes all file descriptors
# it may have, and nothing else of its caller's; then becomes the program: the pid stays.
_LAUNCHER = 'echo 0 > "$0/cgroup.procs" && ulimit -Sn "$(ulimit -Hn)" && umask 022 && cd / && exec "$@"'
# Python ignores SIGPIPE, a shell's background job SIGINT; programs, and the containers below them, must not.
_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_LOG_TAIL = 15  # lines


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number."""

    name: str
    pid: int
    start_time: int  # clock ticks since boot: field 22 of /proc/PID/stat
    boot: str  # /proc/sys/kernel/random/boot_id
    log: str


def parse_start_time(stat: str) -> int | None:
    """The start time of a line of /proc/PID/stat; None for a process that has ended and waits for its parent."""
    fields = stat.rpartition(")")[2].split()  # the name before it may hold blanks and parentheses
    return None if fields[0] in "ZXx" else int(fields[19])


def start_time(pid: int) -> int | None:
    """The start time of a living process, else None."""
    try:
        return parse_start_time(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None


def boot_id() -> str:
    """A new one after each boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def alive(
    process: Process, *, boot: Callable[[], str] = boot_id, started: Callable[[int], int | None] = start_time
) -> bool:
    """True while this very process runs; a number that was given to another process since does not count."""
    return process.boot == boot() and started(process.pid) == process.start_time


def resident_kib(process: Process) -> int:
    """Resident memory in KiB; 0 when it does not run."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


def log_tail(path: Path, lines: int = _LOG_TAIL) -> str:
    """The last lines of a log, indented."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return "      (no log)"
    return "\n".join(f"      {line}" for line in text.splitlines()[-lines:]) or "      (the log is empty)"


@dataclass(frozen=True)
class ProcessTable:
    """The processes of one sandbox. ``records`` has one file for each, ``cgroup`` holds them all."""

    records: Path
    cgroup: Path
    logs: Path

    def start(self, name: str, argv: Sequence[str], *, env: Mapping[str, str]) -> Process:
        """Start ``argv``, out of reach of a Ctrl-C at our terminal; it outlives us. Output goes to ``NAME.log``."""
        log = self.logs / f"{name}.log"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.records.mkdir(parents=True, exist_ok=True)
        command = ["/bin/sh", "-c", _LAUNCHER, str(self.cgroup), *argv]
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        # Not subprocess.Popen: its objects want to be waited for, and these processes are left to themselves.
        pid = os.posix_spawn(command[0], command, dict(env), file_actions=actions, setsid=True, setsigdef=_SIGNALS)
        started = start_time(pid)
        process = Process(name, pid, -1 if started is None else started, boot_id(), str(log))
        path = self.records / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(asdict(process)))
        path.with_suffix(".new").replace(path)
        return process

    def all(self) -> list[Process]:
        """Every recorded process, alive or not, by name."""
        found = []
        for path in sorted(self.records.glob("*.json")):
            with contextlib.suppress(FileNotFoundError):  # ended by another command just now
                found.append(Process(**json.loads(path.read_text())))
        return found

    def find(self, name: str) -> Process | None:
        """The recorded process of that name."""
        return next((process for process in self.all() if process.name == name), None)

    def must_live(self, name: str) -> None:
        """
        :raises ProgramFailed: the process has ended; with its last log lines.
        """
        process = self.find(name)
        if process is not None and not alive(process):
            status = _reap(process.pid)
            how = "ended" if status is None else f"ended with {_status_words(status)}"
            raise ProgramFailed(f"{name} {how}. Its last log lines ({process.log}):\n{log_tail(Path(process.log))}")

    def wait(self, what: str, seconds: float, look: Callable[[], bool], *needs: str) -> None:
        """Look every 0.1 s until it is so.

        :param needs: names of the processes that it depends on; the first is blamed when it takes too long.
        :raises ProgramFailed: one of them ended meanwhile, or ``seconds`` passed.
        """
        deadline = time.monotonic() + seconds
        while not look():
            for name in needs:
                self.must_live(name)
            if time.monotonic() > deadline:
                log = self.logs / f"{needs[0]}.log"
                raise ProgramFailed(
                    f"{what}: not within {seconds:g} s. {needs[0]}'s last log lines ({log}):\n{log_tail(log)}"
                )
            time.sleep(0.1)

    def stop(self, name: str, grace: float = 10.0) -> bool:
        """SIGTERM, then SIGKILL after ``grace`` s; True when it was running. Only the recorded process is touched."""
        process = self.find(name)
        if process is None:
            return False
        was_alive = alive(process)
        if was_alive:
            for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
                deadline = time.monotonic() + seconds
                while alive(process) and time.monotonic() < deadline:
                    time.sleep(0.02)
        _reap(process.pid)
        (self.records / f"{name}.json").unlink(missing_ok=True)
        return was_alive


def reap(processes: Sequence[Process]) -> None:
    """Take leave of those that have ended and are children of ours."""
    for process in processes:
        _reap(process.pid)


def _reap(pid: int) -> int | None:
    """The wait status of an ended child of ours, else None."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return status if ended else None


def _status_words(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
