# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows what this container got of its node's RDMA NICs, and fails when something that was promised is missing.

It runs where the ACK page's Jobs run ``python /workspace/benchmark.py``. Standard library only. ``look`` reads the
container, ``judge`` compares it with what the plugin promises, ``report`` writes it down.

Environment, all optional:
  EXPECT_SHM     least size of /dev/shm ("8Gi", or bytes); default 0: any
  EXPECT_MODE    shared or exclusive; default: exclusive when NCCL_IB_HCA has the plugin's exact form ("=mlx5_0,mlx5_1")
  RDMA_DEV       directory of the device nodes; default /dev/infiniband
  RDMA_SYSFS     where sysfs is mounted; default /sys. Simulated NICs have theirs elsewhere.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import socket
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FAIL, WARN = "fail", "warn"
UNLIMITED = -1
# Bits of the kernel's capability sets (linux/capability.h).
CAPABILITIES = {"IPC_LOCK": 14, "SYS_RESOURCE": 24}
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


# --- what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A device node."""

    name: str  # "uverbs0"
    number: str  # "231:192"; "" when it is no character device
    problem: str = ""  # why it can't be opened for reading and writing; "" when it can, or was not tried


@dataclass(frozen=True)
class Gid:
    """A filled slot of a port's GID table."""

    port: int
    index: int
    gid: str
    type: str  # "RoCE v2"; "" where the kernel does not say
    netdev: str


@dataclass(frozen=True)
class Facts:
    """Everything that the container shows."""

    nodes: tuple[Node, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # RDMA_DP_*, NCCL_*, EXPECT_*
    memlock: int = UNLIMITED  # bytes
    shm_type: str = ""  # type of the file system of /dev/shm; "" when nothing is mounted there
    shm_size: int = 0  # bytes
    hostname: str = ""
    interfaces: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()  # those of CAPABILITIES that are effective
    user: int = 0
    sysfs_devices: tuple[str, ...] | None = None  # RDMA devices in sysfs; None: no RDMA there
    owners: Mapping[str, str] = field(default_factory=dict)  # "uverbs0" to "mlx5_bond_0", from sysfs
    gids: Mapping[str, tuple[Gid, ...]] = field(default_factory=dict)  # by RDMA device

    @property
    def promised(self) -> tuple[str, ...]:
        """The RDMA devices that the plugin says it handed out, over all resources (RDMA_DP_<RESOURCE>_DEVICES)."""
        lists = (value for key, value in self.environment.items() if re.fullmatch(r"RDMA_DP_.+_DEVICES", key))
        return _natural({name for value in lists for name in value.split(",") if name})

    @property
    def verbs(self) -> tuple[str, ...]:
        """The uverbs nodes' names."""
        return tuple(node.name for node in self.nodes if node.name.startswith("uverbs"))

    @property
    def nccl(self) -> tuple[str, ...] | None:
        """The RDMA devices that NCCL_IB_HCA names exactly (value "=a,b"); None where it is unset or a prefix match."""
        value = self.environment.get("NCCL_IB_HCA", "")
        if not value.startswith("="):
            return None
        return _natural({name.partition(":")[0] for name in value[1:].split(",") if name})

    @property
    def exclusive(self) -> bool:
        """Whether the NICs are promised to this container alone."""
        expected = self.environment.get("EXPECT_MODE", "")
        return expected == "exclusive" or (not expected and self.nccl is not None)


def look(environment: Mapping[str, str]) -> Facts:
    """Read the container this runs in."""
    sysfs = Path(environment.get("RDMA_SYSFS") or "/sys")
    devices = _sysfs_devices(sysfs)
    shm_type, shm_size = _shared_memory(Path("/dev/shm"), Path("/proc/mounts"))
    return Facts(
        nodes=device_nodes(Path(environment.get("RDMA_DEV") or "/dev/infiniband")),
        environment={
            key: value for key, value in environment.items() if key.startswith(("RDMA_DP_", "NCCL_", "EXPECT_"))
        },
        memlock=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        shm_type=shm_type,
        shm_size=shm_size,
        hostname=socket.gethostname(),
        interfaces=tuple(name for _unused, name in socket.if_nameindex()),
        capabilities=effective_capabilities(_text(Path("/proc/self/status"))),
        user=os.geteuid(),
        sysfs_devices=devices,
        owners=_owners(sysfs),
        gids={device: _gids(sysfs, device) for device in devices or ()},
    )


def device_nodes(directory: Path) -> tuple[Node, ...]:
    """The nodes of a directory, each opened as an RDMA program would; none when it is not there."""
    try:
        names = _natural(os.listdir(directory))
    except OSError:
        return ()
    return tuple(_node(directory / name) for name in names if not (directory / name).is_dir())


def effective_capabilities(status: str) -> tuple[str, ...]:
    """Which of CAPABILITIES the text of /proc/self/status grants."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return tuple(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)


def size_of(text: str) -> int:
    """Bytes of a size as Kubernetes writes it: "8Gi", "500M", "1073741824".

    :raises ValueError: for anything else.
    """
    match = re.fullmatch(r"(\d+)([kMG]|[KMGT]i)?", text.strip())
    if not match:
        raise ValueError(f"EXPECT_SHM is {text!r}; write a size like 8Gi.")
    return int(match[1]) * _UNITS[match[2] or ""]


def _node(path: Path) -> Node:
    try:
        facts = path.stat()
        if not stat.S_ISCHR(facts.st_mode):
            return Node(path.name, "", "it is no character device")
        number = f"{os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)}"
        # Opening issm makes the port a subnet manager, which is nothing to try.
        if not path.name.startswith("issm"):
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        number = "" if error.filename is None else _number(path)
        reason = {
            errno.EPERM: "the container's device cgroup forbids it",
            errno.ENXIO: "there is no device behind it, the driver may have been reloaded",
            errno.ENODEV: "there is no device behind it, the driver may have been reloaded",
        }.get(error.errno or 0, os.strerror(error.errno or 0))
        return Node(path.name, number, reason)
    return Node(path.name, number)


def _number(path: Path) -> str:
    try:
        device = path.stat().st_rdev
    except OSError:
        return ""
    return f"{os.major(device)}:{os.minor(device)}"


def _shared_memory(directory: Path, mounts: Path) -> tuple[str, int]:
    for line in reversed(_text(mounts).splitlines()):
        fields = line.split()
        if len(fields) > 2 and fields[1] == str(directory):
            size = os.statvfs(directory)
            return fields[2], size.f_frsize * size.f_blocks
    return "", 0


def _sysfs_devices(sysfs: Path) -> tuple[str, ...] | None:
    try:
        return _natural(os.listdir(sysfs / "class/infiniband")) or None
    except OSError:
        return None


def _owners(sysfs: Path) -> dict[str, str]:
    """Which RDMA device an uverbs node belongs to (ABI: /sys/class/infiniband_verbs/uverbsN/ibdev)."""
    pairs = ((path.name, _text(path / "ibdev").strip()) for path in (sysfs / "class/infiniband_verbs").glob("uverbs*"))
    return {name: device for name, device in pairs if device}


def _gids(sysfs: Path, device: str) -> tuple[Gid, ...]:
    found = []
    for path in (sysfs / "class/infiniband" / device / "ports").glob("*/gids/*"):
        port = path.parents[1]
        gid = _text(path).strip()
        if gid.strip("0:"):
            kind = _text(port / "gid_attrs/types" / path.name).strip()
            netdev = _text(port / "gid_attrs/ndevs" / path.name).strip()
            found.append(Gid(int(port.name), int(path.name), gid, kind.replace("IB/RoCE", "RoCE"), netdev))
    return tuple(sorted(found, key=lambda gid: (gid.port, gid.index)))


def _text(path: Path) -> str:
    """A file's contents; nothing where it can't be read: attributes of empty GID slots fail with EINVAL."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _natural(names: Sequence[str] | set[str]) -> tuple[str, ...]:
    """Sorted, mlx5_10 after mlx5_9."""
    return tuple(
        sorted(
            names, key=lambda name: [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]
        )
    )


# --- what there should be ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """One thing that is not as promised (FAIL), or that a user should know (WARN)."""

    severity: str
    message: str


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Compare the container with what the plugin promises.

    :raises ValueError: when an EXPECT_ variable can't be understood.
    """
    return (*_judge_nodes(facts), *_judge_names(facts), *_judge_nccl(facts), *_judge_memory(facts), *_judge_gids(facts))


def _judge_nodes(facts: Facts) -> list[Finding]:
    if not facts.verbs:
        return [
            Finding(
                FAIL,
                "there is no uverbs node in /dev/infiniband, so the container got no NIC: it has to ask for the RDMA "
                "resource in its limits",
            )
        ]
    found = [Finding(FAIL, f"{node.name} can't be opened: {node.problem}") for node in facts.nodes if node.problem]
    if not any(node.name == "rdma_cm" for node in facts.nodes):
        found.append(
            Finding(
                WARN,
                "there is no rdma_cm node, so librdmacm does not work here. Load the module rdma_ucm on the node: "
                "modprobe rdma_ucm",
            )
        )
    return found


def _judge_names(facts: Facts) -> list[Finding]:
    if not facts.verbs:
        return []
    if not facts.promised:
        return [Finding(WARN, "no variable RDMA_DP_*_DEVICES is set: another plugin than rdma-dp handed out the nodes")]
    if len(facts.promised) != len(facts.verbs):
        return [
            Finding(
                FAIL,
                f"the plugin names {len(facts.promised)} NICs ({', '.join(facts.promised)}), but there are "
                f"{len(facts.verbs)} uverbs nodes ({', '.join(facts.verbs)})",
            )
        ]
    found = []
    behind = {facts.owners[name]: name for name in facts.verbs if name in facts.owners}
    for device, name in behind.items():
        if device not in facts.promised:
            found.append(Finding(FAIL, f"{name} belongs to {device}, which the plugin does not name"))
    if facts.sysfs_devices is not None:
        for device in facts.promised:
            if device not in facts.sysfs_devices:
                found.append(Finding(FAIL, f"the plugin names {device}, which is not in /sys/class/infiniband"))
    return found


def _judge_nccl(facts: Facts) -> list[Finding]:
    if not facts.exclusive:
        return []
    if facts.nccl is None:
        return [
            Finding(
                FAIL,
                "exclusive mode, but NCCL_IB_HCA does not name the NICs exactly: NCCL would try all that it sees in "
                "/sys, and fail at those of others",
            )
        ]
    if facts.promised and facts.nccl != facts.promised:
        return [
            Finding(
                FAIL,
                f"NCCL_IB_HCA names {', '.join(facts.nccl)}, but the container got {', '.join(facts.promised)}",
            )
        ]
    return []


def _judge_memory(facts: Facts) -> list[Finding]:
    found = []
    least = size_of(facts.environment.get("EXPECT_SHM") or "0")
    if facts.shm_type != "tmpfs":
        found.append(
            Finding(
                FAIL,
                f"/dev/shm is {facts.shm_type or 'not mounted'}, not in memory: mount an emptyDir with medium: Memory "
                "there",
            )
        )
    elif facts.shm_size < least:
        found.append(
            Finding(
                FAIL,
                f"/dev/shm has {_size(facts.shm_size)}, less than the {_size(least)} of EXPECT_SHM: raise the "
                "emptyDir's sizeLimit, or the pod's memory limit",
            )
        )
    # Root with IPC_LOCK is not bound by the limit; nobody else gets the capability from Kubernetes.
    if facts.memlock != UNLIMITED and not ("IPC_LOCK" in facts.capabilities and facts.user == 0):
        found.append(
            Finding(
                WARN,
                f"memory can be registered up to {_size(facts.memlock)} only: add the capability IPC_LOCK and run as "
                "root, or raise LimitMEMLOCK of the container runtime",
            )
        )
    return found


def _judge_gids(facts: Facts) -> list[Finding]:
    if facts.sysfs_devices is None:
        return []
    return [
        Finding(
            WARN,
            f"{device} has no GID that this container could use: a pod with its own IP needs an IPv6 compute network, "
            "or hostNetwork: true",
        )
        for device in facts.promised
        if device in facts.sysfs_devices and not facts.gids.get(device)
    ]


# --- what to say ------------------------------------------------------------------------------------------------------


def report(facts: Facts, findings: Sequence[Finding]) -> str:
    """The text for the Job's log; its last line is the result."""
    lines = [f"RDMA test on {facts.hostname}", ""]
    lines += _section("Device nodes in /dev/infiniband", [_node_line(node, facts) for node in facts.nodes])
    lines += _section("Environment", [f"{key}={value}" for key, value in sorted(facts.environment.items())])
    lines += _section("GIDs", _gid_lines(facts))
    own = set(facts.interfaces) <= {"lo", "eth0", "tunl0", "sit0", "ip6tnl0"}
    capabilities = [name if name in facts.capabilities else f"no {name}" for name in CAPABILITIES]
    lines += _section(
        "Container",
        [
            f"network        {', '.join(facts.interfaces) or 'no interface'} "
            f"({'own IP, as it seems' if own else 'host network, as it seems'})",
            f"/dev/shm       {facts.shm_type or 'not mounted'}, {_size(facts.shm_size)}",
            f"memlock limit  {_size(facts.memlock)}",
            f"capabilities   {', '.join(capabilities)}; user {facts.user}",
        ],
    )
    lines += [f"{'WARNING' if finding.severity == WARN else 'MISSING'}: {finding.message}." for finding in findings]
    failures = [finding.message for finding in findings if finding.severity == FAIL]
    if failures:
        return "\n".join([*lines, f"RDMA test: FAILED: {'; '.join(failures)}"])
    names = facts.promised or _natural({facts.owners.get(name, name) for name in facts.verbs})
    return "\n".join([*lines, f"RDMA test: PASSED ({len(names)} NIC{'s' * (len(names) != 1)}: {', '.join(names)})"])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines or ["none"]), ""]


def _node_line(node: Node, facts: Facts) -> str:
    state = node.problem or ("not opened, on purpose" if node.name.startswith("issm") else "opened")
    owner = facts.owners.get(node.name, "")
    return f"{node.name:12} {node.number or '-':9} {state}{f'  ({owner})' if owner else ''}"


def _gid_lines(facts: Facts) -> list[str]:
    if facts.sysfs_devices is None:
        return ["no RDMA sysfs here: GIDs can't be shown. That is so where NICs are simulated."]
    return [
        f"{device} port {gid.port} GID {gid.index:<3} {gid.gid}  {gid.type}  {gid.netdev}".rstrip()
        for device in facts.promised or facts.sysfs_devices
        for gid in facts.gids.get(device, ())
    ]


def _size(number: int) -> str:
    if number == UNLIMITED:
        return "unlimited"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= factor:
            return f"{number / factor:.4g} {unit}"
    return f"{number} B"


def main() -> int:
    """Exit codes: 0 everything promised is there; 1 it is not; 2 an EXPECT_ variable is wrong."""
    facts = look(os.environ)
    try:
        findings = judge(facts)
    except ValueError as error:
        print(f"RDMA test: FAILED: {error}")
        return 2
    print(report(facts, findings), flush=True)
    return int(any(finding.severity == FAIL for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
