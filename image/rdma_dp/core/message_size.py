# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large kubelet's device list gets, in bytes: one over the limit ends the stream and leaves the node with nothing.

Kubelet takes messages of at most 4 MiB (KUBELET.md rule 25). Sizes follow from the protobuf encoding: a field of text
or of a message is a tag of one byte, the length as a varint, and the content.
"""

from __future__ import annotations

from collections import Counter
from typing import List, Sequence, Tuple

MAX_MESSAGE = 4 * 1024 * 1024

# A NIC of rdmaHcaScope: nic has its own devices. How many NICs the nodes will have is not known when a config is
# checked; no machine with more than this many RDMA NICs for pods is known. Beyond it, `pools` offers fewer per NIC.
ASSUMED_NICS = 16
PCI_ADDRESS = "0000:17:00.0"


def message_size(fronts: Sequence[str], count: int, numa_nodes: Sequence[Sequence[int]] = ()) -> int:
    """Bytes of a ListAndWatchResponse with the devices ``<front>-0`` to ``<front>-<count - 1>`` of each front.

    All are counted as Unhealthy, which takes more room than Healthy. ``numa_nodes`` has the nodes for each front.
    """
    nodes = [tuple(of_front) for of_front in numa_nodes] or [()] * len(fronts)
    alike = Counter((len(front.encode("utf-8", "surrogatepass")), of_front) for front, of_front in zip(fronts, nodes))
    return sum(times * _size_of_one(length, count, of_front) for (length, of_front), times in alike.items())


def _size_of_one(length: int, count: int, nodes: Tuple[int, ...]) -> int:
    """For one front of so many bytes."""
    fixed = _field(len("Unhealthy")) + (_field(sum(_field(_numa_node(node)) for node in nodes)) if nodes else 0)
    return sum(amount * _field(_field(length + 1 + digits) + fixed) for digits, amount in _by_digits(count))


def most(fronts: Sequence[str], numa_nodes: Sequence[Sequence[int]] = ()) -> int:
    """The largest ``count`` with which the message still fits."""
    low, high = 0, MAX_MESSAGE
    while low < high:
        middle = (low + high + 1) // 2
        if message_size(fronts, middle, numa_nodes) <= MAX_MESSAGE:
            low = middle
        else:
            high = middle - 1
    return low


def _by_digits(count: int) -> List[Tuple[int, int]]:
    """How many of the numbers below ``count`` have 1, 2, 3... digits."""
    found = []
    digits, start = 1, 0
    while start < count:
        end = min(count, 10**digits)
        found.append((digits, end - start))
        digits, start = digits + 1, 10**digits
    return found


def _numa_node(node: int) -> int:
    """Bytes of a NUMANode's content; protobuf leaves a 0 out."""
    return 1 + _varint(node) if node else 0


def _field(content: int) -> int:
    return 1 + _varint(content) + content


def _varint(number: int) -> int:
    return max(1, (number.bit_length() + 6) // 7)
