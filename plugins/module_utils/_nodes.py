# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes that a task is about: which they are, and what the API says of them. Private to this collection."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.lingjun.rdma.plugins.module_utils import _names, _quantity
from ansible_collections.lingjun.rdma.plugins.module_utils._answers import NODES
from ansible_collections.lingjun.rdma.plugins.module_utils._auth import CONNECTIONS
from ansible_collections.lingjun.rdma.plugins.module_utils._client import Client, Listing
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import InvalidValue, Problem, UnknownNodes
from ansible_collections.lingjun.rdma.plugins.module_utils._parallel import each

# Up to here asking for each name is cheaper than listing a large cluster (4 ms a name; 0.3 s a thousand nodes).
_ASK_ONE_BY_ONE = 16


@dataclass(frozen=True)
class Selection:
    """Which nodes: ``names``, or all that match ``selector``."""

    names: Tuple[str, ...] = ()
    selector: str = ""

    def __str__(self) -> str:
        return f"nodes {', '.join(self.names)}" if self.names else f"label selector {self.selector}"


@dataclass(frozen=True)
class Node:
    """What a Node object says, reduced to what the modules need."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Tuple[Mapping[str, Any], ...] = ()
    schedulable: bool = True
    ready: bool = False
    not_ready_because: str = ""  # the Ready condition's own words; "" for a ready node
    reported_at: str = ""  # when kubelet last wrote this status, on the node's clock ("2026-01-01T00:00:00Z")
    capacity: Mapping[str, int] = field(default_factory=dict)  # only the resources asked for that the node shows
    allocatable: Mapping[str, int] = field(default_factory=dict)
    resource_version: str = ""

    @property
    def mode(self) -> Optional[str]:
        """The value of lingjun.rdma/mode."""
        return self.labels.get(_names.MODE_LABEL)


def selection(params: Mapping[str, Any]) -> Selection:
    """The selection that the options ``nodes`` and ``label_selectors`` mean; raises InvalidValue for an empty one."""
    if params.get("nodes") is not None:
        names = tuple(dict.fromkeys(name.strip() for name in params["nodes"] if name and name.strip()))
        if not names:
            raise InvalidValue("The option nodes is empty; name at least one node, or use label_selectors.")
        return Selection(names=names)
    selector = ",".join(part.strip() for part in params.get("label_selectors") or [] if part and part.strip())
    if not selector:
        raise InvalidValue(
            "The option label_selectors is empty, which would mean every node; name a label, or use nodes."
        )
    return Selection(selector=selector)


def parse(raw: Mapping[str, Any], resources: Iterable[str] = ()) -> Node:
    """A :class:`Node` from the API's JSON. Works on metadata-only objects too: then the rest has its defaults."""
    meta, spec, status = (raw.get(part) or {} for part in ("metadata", "spec", "status"))
    condition: Mapping[str, Any] = next(
        (item for item in status.get("conditions") or [] if item.get("type") == "Ready"), {}
    )
    ready = condition.get("status") == "True"
    because = (
        ""
        if ready
        else ": ".join(filter(None, [condition.get("reason"), condition.get("message")])) or "no Ready condition"
    )
    return Node(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        schedulable=not spec.get("unschedulable"),
        ready=ready,
        not_ready_because=because,
        reported_at=condition.get("lastHeartbeatTime") or "",
        capacity=_amounts(status.get("capacity") or {}, resources),
        allocatable=_amounts(status.get("allocatable") or {}, resources),
        resource_version=meta.get("resourceVersion", ""),
    )


def _amounts(quantities: Mapping[str, str], resources: Iterable[str]) -> Dict[str, int]:
    return {resource: _quantity.whole(quantities[resource]) for resource in resources if resource in quantities}


def read(
    client: Client, selected: Selection, reduce: Callable[[Dict[str, Any]], Node] = parse, metadata_only: bool = False
) -> Listing[Node]:
    """The selected nodes, in the order of their names (or as named), and a resource version to watch from.

    Raises UnknownNodes when a named node does not exist, Problem when the selector matches none.
    """
    if selected.selector:
        listing = client.list(NODES, reduce, label_selector=selected.selector, metadata_only=metadata_only)
        if not listing.items:
            raise Problem(
                f"No node matches the label selector {selected.selector}; compare kubectl get nodes --show-labels."
            )
        return listing
    if len(selected.names) <= _ASK_ONE_BY_ONE:

        def ask(name: str) -> Listing[Node]:
            return client.list(NODES, reduce, field_selector=f"metadata.name={name}", metadata_only=metadata_only)

        answers = each(ask, selected.names, CONNECTIONS)
        found = {node.name: node for answer in answers for node in answer.items}
        # The oldest of the moments: a watch from there misses nothing.
        version = min(
            (answer.resource_version for answer in answers), key=lambda text: int(text) if text.isdigit() else 0
        )
    else:
        wanted = frozenset(selected.names)

        def pick(raw: Dict[str, Any]) -> Optional[Node]:
            return reduce(raw) if raw["metadata"]["name"] in wanted else None

        listing = client.list(NODES, pick, metadata_only=metadata_only)
        found = {node.name: node for node in listing.items}
        version = listing.resource_version
    unknown = [name for name in selected.names if name not in found]
    if unknown:
        raise UnknownNodes(_unknown(unknown, client.list(NODES, _known).items), unknown_nodes=unknown)
    return Listing([found[name] for name in selected.names], version)


def _known(raw: Dict[str, Any]) -> Tuple[str, Tuple[str, ...]]:
    """(name, addresses) of a node."""
    addresses = (raw.get("status") or {}).get("addresses") or []
    return raw["metadata"]["name"], tuple(item["address"] for item in addresses if item.get("address"))


def _unknown(names: Sequence[str], known: Sequence[Tuple[str, Tuple[str, ...]]]) -> str:
    parts = []
    for name in names:
        meant = suggest(name, known)
        parts.append(f"{name} ({f'probably {meant}' if meant else 'nothing like it'})")
    return (
        f"The cluster has no node named {', '.join(parts)}; it has {len(known)} nodes. Write the names as kubectl get"
        " nodes shows them. Nothing was changed."
    )


def suggest(name: str, known: Sequence[Tuple[str, Tuple[str, ...]]]) -> Optional[str]:
    """The node that ``name`` probably means: other case, short or long form, an address, or a slip of the keyboard.

    ``known`` has (name, addresses) of each node. None when nothing, or more than one node, comes close by form.
    """
    lower = name.lower()
    for same in (
        lambda node, addresses: node == lower,
        lambda node, addresses: name in addresses or lower in [address.lower() for address in addresses],
        lambda node, addresses: node.split(".")[0] == lower.split(".")[0],
    ):
        matches = [node for node, addresses in known if same(node, addresses)]
        if matches:
            return matches[0] if len(matches) == 1 else None
    close = difflib.get_close_matches(lower, [node for node, _addresses in known], n=1, cutoff=0.8)
    return close[0] if close else None


def names_of(nodes: Iterable[Node]) -> List[str]:
    """Their names."""
    return [node.name for node in nodes]
