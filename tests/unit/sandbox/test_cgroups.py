# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hierarchies a machine has, and that only the sandbox's groups are made and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox import cgroups
from tests.sandbox.cgroups import Hierarchies, parse_hierarchies
from tests.sandbox.errors import SandboxError

V1 = """\
25 30 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw
34 31 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:16 - cgroup cgroup rw,memory
35 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:17 - cgroup cgroup rw,cpu,cpuacct
36 31 0:31 / /sys/fs/cgroup/freezer rw,nosuid shared:18 - cgroup cgroup rw,freezer
37 31 0:32 / /sys/fs/cgroup/unified rw,nosuid shared:19 - cgroup2 cgroup2 rw
"""
V2 = "34 25 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_one_tracks_in_the_freezer() -> None:
    where = parse_hierarchies(V1)
    base = Path("/sys/fs/cgroup")
    assert where.v1 == (base / "memory", base / "cpu,cpuacct", base / "freezer")
    assert where.v2 == base / "unified"
    assert where.tracker == base / "freezer"


def test_version_two_has_one_hierarchy() -> None:
    where = parse_hierarchies(V2)
    assert where.all == (Path("/sys/fs/cgroup"),)
    assert where.tracker == Path("/sys/fs/cgroup")


def test_no_cgroups_is_an_error_of_its_own() -> None:
    with pytest.raises(SandboxError, match="No cgroup hierarchy"):
        _unused = parse_hierarchies("25 30 0:22 / /sys rw - sysfs sysfs rw\n").tracker


@pytest.fixture
def machine(tmp_path: Path) -> Hierarchies:
    """Two hierarchies of version 1, as directories."""
    for name in ("cpuset", "freezer"):
        (tmp_path / name / "somebody-else").mkdir(parents=True)
        (tmp_path / name / "cgroup.procs").write_text("1\n")
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    return Hierarchies((tmp_path / "cpuset", tmp_path / "freezer"), None)


def test_groups_of_programs_and_nodes_are_made_in_every_hierarchy(machine: Hierarchies) -> None:
    programs = cgroups.create(machine, "lrs-123456", ("node-a", "node-b"))
    assert programs == machine.tracker / "lrs-123456" / "programs"
    for mount_point in machine.all:
        assert {path.name for path in (mount_point / "lrs-123456").iterdir()} >= {"node-a", "node-b"}


def test_removing_takes_only_the_sandboxs_groups(machine: Hierarchies) -> None:
    cgroups.create(machine, "lrs-123456", ("node-a",))
    (machine.v1[1] / "lrs-123456" / "node-a" / "kubepods").mkdir()
    cgroups.remove(machine, "lrs-123456")
    for mount_point in machine.all:
        assert not (mount_point / "lrs-123456").exists()
        assert (mount_point / "somebody-else").exists()


def test_members_are_found_at_every_depth_and_outside_nobody_is(machine: Hierarchies) -> None:
    cgroups.create(machine, "lrs-123456", ("node-a",))
    (machine.v1[0] / "lrs-123456" / "cgroup.procs").write_text("10\n")
    pods = machine.v1[1] / "lrs-123456" / "node-a" / "kubepods"
    pods.mkdir()
    (pods / "cgroup.procs").write_text("11\n0\n12\n")
    assert cgroups.members(machine, "lrs-123456") == {10, 11, 12}


def test_a_group_in_use_is_named(machine: Hierarchies) -> None:
    cgroups.create(machine, "lrs-123456", ())
    (machine.v1[1] / "lrs-123456" / "programs" / "file").touch()  # rmdir fails, as it does while a process is inside
    with pytest.raises(SandboxError, match="programs can't be removed"):
        cgroups.remove(machine, "lrs-123456", seconds=0.0)


def test_cgroups_that_can_not_be_written_are_an_error_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "freezer").write_text("a file where a hierarchy should be")
    with pytest.raises(SandboxError, match="needs writable cgroups"):
        cgroups.create(Hierarchies((tmp_path / "freezer",), None), "lrs-123456", ())
