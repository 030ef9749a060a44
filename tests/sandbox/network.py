# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox's network: one bridge on the host, one cable per node, a subnet for each node's pods.

Everything is cut from one free /16, so nothing overlaps with what the machine is connected to.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from pathlib import Path

from tests.sandbox.commands import run
from tests.sandbox.errors import SandboxError
from tests.sandbox.layout import Layout, NodeLayout

# Looked through in this order. 198.18.0.0/15 is kept free for benchmarks (RFC 2544): the last resort behind a VPN that
# routes all private addresses.
_CANDIDATES: tuple[IPv4Network, ...] = (
    *(IPv4Network(f"10.{number}.0.0/16") for number in range(88, 128)),
    *(IPv4Network(f"172.{number}.0.0/16") for number in range(20, 32)),
    *(IPv4Network(f"198.{number}.0.0/16") for number in (18, 19)),
)


@dataclass(frozen=True)
class AddressPlan:
    """How the /16 is used: .0.0/24 host and nodes, .1.0/24 and on the pods of each node, .240.0/20 Services."""

    prefix: IPv4Network

    @property
    def host(self) -> IPv4Address:
        """The bridge's own address: API server, scheduler and controller-manager listen here and nowhere else."""
        return self.prefix[1]

    @property
    def nodes(self) -> IPv4Network:
        """The bridge's subnet."""
        return IPv4Network((int(self.prefix.network_address), 24))

    @property
    def services(self) -> IPv4Network:
        """ClusterIPs. There is no kube-proxy, they lead nowhere."""
        return IPv4Network((int(self.prefix[240 * 256]), 20))

    def node(self, index: int) -> IPv4Address:
        """A node's address."""
        return self.prefix[11 + index]

    def pods(self, index: int) -> IPv4Network:
        """The subnet of a node's pods."""
        return IPv4Network((int(self.prefix[(index + 1) * 256]), 24))


def parse_taken(routes: str, addresses: str) -> list[IPv4Network]:
    """What `ip -json -4 route show table all` and `ip -json -4 address` say is in use; the default route is not."""
    taken = [
        ip_network(route["dst"]) for route in json.loads(routes or "[]") if route["dst"] not in ("default", "0.0.0.0/0")
    ]
    for link in json.loads(addresses or "[]"):
        taken += [
            ip_network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
            for entry in link.get("addr_info", [])
            if "local" in entry
        ]
    return [network for network in taken if isinstance(network, IPv4Network)]


def choose_prefix(taken: Iterable[IPv4Network]) -> AddressPlan:
    """The first /16 that touches nothing in use.

    :raises SandboxError: there is none.
    """
    used = list(taken)
    for candidate in _CANDIDATES:
        if not any(candidate.overlaps(network) for network in used):
            return AddressPlan(candidate)
    raise SandboxError(
        "No free /16 for the sandbox: every candidate (10.88 to 10.127, 172.20 to 172.31, 198.18 and 198.19) overlaps "
        "with a route or address of this machine, perhaps of a VPN. Look at `ip -4 route show table all`."
    )


@contextlib.contextmanager
def one_at_a_time(name: str, seconds: float, busy: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a name that only one process of this machine can hold; the kernel takes it back however the process ends.

    It is an abstract Unix socket, hence no file is left behind and none is needed.

    :param waiting: called once when another one holds it.
    :raises SandboxError: ``busy`` when another one holds it for longer than ``seconds``.
    """
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as lock:
        told = False
        while True:
            try:
                lock.bind(f"\0{name}")
                break
            except OSError:
                if not told:
                    waiting()
                    told = True
                if time.monotonic() > deadline:
                    raise SandboxError(busy) from None
                time.sleep(0.1)
        yield


def create_bridge(layout: Layout) -> AddressPlan:
    """Choose addresses and make the bridge. Two sandboxes that start together do not choose the same."""
    with one_at_a_time("lrs-addresses", 30.0, "Another sandbox has been choosing its addresses for 30 s. Try again."):
        plan = choose_prefix(
            parse_taken(
                run(["ip", "-json", "-4", "route", "show", "table", "all"]), run(["ip", "-json", "-4", "address"])
            )
        )
        bridge = layout.id
        run(["ip", "link", "add", bridge, "type", "bridge"])
        run(["ip", "address", "add", f"{plan.host}/{plan.nodes.prefixlen}", "dev", bridge])
        run(["ip", "link", "set", bridge, "up"])
    return plan


def connect(node: NodeLayout, pid: int, plan: AddressPlan, others: Sequence[int]) -> None:
    """Plug a cable into the network namespace of process ``pid``, with routes to the pods of the nodes ``others``."""
    address = plan.node(node.index)
    inside = ["nsenter", "--net", "--target", str(pid), "ip", "-batch", "-"]
    run(["ip", "link", "add", node.veth, "type", "veth", "peer", "name", "eth0", "netns", str(pid)])
    run(["ip", "link", "set", node.veth, "master", node.cluster.id, "up"])
    lines = [
        "link set lo up",
        f"address add {address}/{plan.nodes.prefixlen} dev eth0",
        "link set eth0 up",
        f"route add default via {plan.host}",
        *(f"route add {plan.pods(other)} via {plan.node(other)}" for other in others),
    ]
    run(inside, stdin="\n".join(lines) + "\n")
    run(["nsenter", "--net", "--target", str(pid), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
    # From the host to this node's pods: for the API server's proxy, and for whoever tries things out.
    run(["ip", "route", "add", str(plan.pods(node.index)), "via", str(address), "dev", node.cluster.id])


def remove(layout: Layout) -> None:
    """Remove the bridge and all cables; routes and addresses go with them."""
    for name in sorted(os.listdir("/sys/class/net"), reverse=True):  # cables (ID-0) before the bridge (ID)
        if name == layout.id or name.startswith(f"{layout.id}-"):
            try:
                run(["ip", "link", "delete", name])
            except SandboxError:
                # A cable goes by itself when its node's namespace does, perhaps just now.
                if Path("/sys/class/net", name).exists():
                    raise


def free_port(address: IPv4Address, first: int, attempts: int = 200) -> int:
    """The first TCP port from ``first`` on that can be listened on.

    :raises SandboxError: none of ``attempts``.
    """
    for port in range(first, min(first + attempts, 65536)):
        if port_is_free(address, port):
            return port
    raise SandboxError(
        f"No free TCP port from {first} on at {address}. Something listens on all of them: see `ss -ltn`."
    )


def port_is_free(address: IPv4Address, port: int) -> bool:
    """True when nothing listens there, nor on all addresses."""
    with socket.socket(socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((str(address), port))
        except OSError:
            return False
    return True
