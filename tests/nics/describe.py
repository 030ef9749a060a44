# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a description (a machine file, or the facts of a capture) to a :class:`Machine`.

A description names what matters; what it leaves open is filled in with what the kernel would show for the driver,
always the same for the same description. README.md lists the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import addresses, gids, profiles
from .addresses import Address
from .model import Function, Machine, Netdev, Port, RdmaDevice
from .profiles import PROFILES, Profile

_STATE_NUMBERS = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
_NODE_MODULES = ("ib_core", "ib_uverbs", "ib_umad")
_UPLINK = {"name": "eth0", "bus": "virtio"}


@dataclass
class _Draft:
    """One NIC of the description while it is being completed."""

    index: int
    facts: Mapping[str, Any]
    name: str
    driver: str
    address: Address | None = None
    physfn: Address | None = None
    netdevs: list[str] = field(default_factory=list)
    bond: str = ""

    @property
    def profile(self) -> Profile:
        return PROFILES[self.driver]

    @property
    def is_lag(self) -> bool:
        """The driver names a LAG device so; the card's second function has no RDMA device then."""
        return "_bond_" in self.name

    @property
    def is_sub_function(self) -> bool:
        return bool(self.facts.get("aux_device"))

    @property
    def switch_id(self) -> str:
        """Of a function in switchdev mode, as the driver makes it: the system image GUID."""
        guid = str(self.facts.get("sys_image_guid") or gids.made_up_guid(str(self.address), self.index))
        return guid.replace(":", "") if self.facts.get("representors") is not None else ""

    @property
    def port_facts(self) -> list[Mapping[str, Any]]:
        return self.facts.get("ports") or [{"port": 1}]

    @property
    def link_layer(self) -> str:
        """Of the first port; what names say where the description does not."""
        named = next((port["link_layer"] for port in self.port_facts if port.get("link_layer")), "")
        by_name = any(name.startswith("ib") for name in self.facts.get("netdevs") or []) or "_ib" in self.name
        return str(named or ("InfiniBand" if by_name else self.profile.link_layer))


def machine(name: str, facts: Mapping[str, Any], source: str = "") -> Machine:
    """The machine that `facts` describe. ValueError where they describe none."""
    if not isinstance(facts.get("nics"), list):
        raise ValueError(f"{name} describes no machine: it has no list `nics`")
    drafts = _drafts(facts)
    _give_addresses(drafts, facts)
    _give_netdevs(drafts, facts)
    functions = _functions(drafts, facts)
    rdma = tuple(_rdma_device(draft) for draft in drafts if draft.facts.get("rdma", True))
    return Machine(
        name=name,
        description=str(facts.get("description", "")),
        source=source,
        functions=functions,
        netdevs=_netdevs(drafts, facts),
        rdma_devices=rdma,
        modules=_modules(drafts, facts),
        rdma_cm_minor=facts.get("rdma_cm_minor", 124) if rdma else None,
        cpus=tuple(facts.get("cpus") or ("0-31", "32-63")),
        stray_nodes=tuple(facts.get("stray_nodes") or ()),
    )


def _drafts(facts: Mapping[str, Any]) -> list[_Draft]:
    drafts = []
    for index, nic in enumerate(facts["nics"]):
        name = nic.get("rdma_device") or f"unnamed_{index}"
        driver = nic.get("driver") or profiles.driver_of(name, nic.get("vendor") or "")
        drafts.append(_Draft(index, nic, name, driver, bond=nic.get("bond") or ""))
    return drafts


# --- PCI ------------------------------------------------------------------------------------------------------------


def _give_addresses(drafts: list[_Draft], facts: Mapping[str, Any]) -> None:
    """Said, else readable from a name, else the next of the listed functions that fits, else made up."""
    listed = [entry for entry in facts.get("pci_functions") or [] if not entry.get("rdma_device")]
    for draft in drafts:
        if draft.driver in profiles.SOFTWARE:
            continue
        said = draft.facts.get("pci_address") or draft.facts.get("derived_pci")
        if said:
            draft.address = addresses.parse(said)
        else:
            names = [draft.name, *(draft.facts.get("netdevs") or [])]
            found = next((decoded for decoded in map(addresses.from_name, names) if decoded), None)
            if found:
                draft.address, draft.physfn = found
        if draft.facts.get("physfn"):
            draft.physfn = addresses.parse(draft.facts["physfn"])
    used = {str(draft.address) for draft in drafts if draft.address}
    for draft in drafts:
        if draft.address or draft.driver in profiles.SOFTWARE:
            continue
        fitting = (entry["pci_address"] for entry in listed if _fits(draft, entry, listed, used))
        made_up = (f"0000:{bus:02x}:00.0" for bus in range(0x11, 0x100))
        draft.address = addresses.parse(next(fitting, None) or next(text for text in made_up if text not in used))
        used.add(str(draft.address))


def _fits(draft: _Draft, entry: Mapping[str, Any], listed: list[Mapping[str, Any]], used: set[str]) -> bool:
    """A LAG device sits on the first function of a card with two."""
    address = addresses.parse(entry["pci_address"])
    if str(address) in used or address.function or entry.get("vendor") != draft.profile.vendor:
        return False
    siblings = {other["pci_address"] for other in listed if other.get("vendor") == draft.profile.vendor}
    return not draft.is_lag or str(address.sibling) in siblings


def _functions(drafts: list[_Draft], facts: Mapping[str, Any]) -> tuple[Function, ...]:
    """Those of the NICs, the silent second ones of LAG cards, and what else the description lists."""
    found: dict[str, Function] = {}
    listed = {entry["pci_address"]: entry for entry in facts.get("pci_functions") or []}
    vfs = {str(draft.physfn) for draft in drafts if draft.physfn}
    for draft in sorted(drafts, key=lambda draft: draft.is_sub_function):
        if draft.address is None:
            continue
        address = str(draft.address)
        function = _nic_function(draft, listed.get(address, {}), is_owner=address in vfs)
        found.setdefault(address, function)
        if draft.is_lag:
            found[str(draft.address.sibling)] = replace(function, address=str(draft.address.sibling))
    for entry in listed.values():
        found.setdefault(entry["pci_address"], _listed_function(entry))
    for owner in vfs:
        found.setdefault(owner, _listed_function({"pci_address": owner}))
    return tuple(found[address] for address in sorted(found))


def _nic_function(draft: _Draft, entry: Mapping[str, Any], is_owner: bool) -> Function:
    """The function of a NIC; `entry` is what the list of functions has about it."""
    assert draft.address is not None
    nic = draft.facts
    model = " ".join(str(nic.get(key) or "") for key in ("hca", "model", "desc")) + str(entry.get("description") or "")
    part = str(nic.get("hca_type") or "").removeprefix("MT")
    of_type = f"{int(part):04x}" if part.isdigit() else ""
    usual = "101e" if draft.physfn and draft.driver == "mlx5_core" else draft.profile.device_id
    return Function(
        address=str(draft.address),
        path=_bridge_path(draft.address, nic.get("sysfs")),
        vendor=nic.get("vendor") or draft.profile.vendor,
        device_id=nic.get("device_id") or entry.get("device_id") or of_type or profiles.device_id_of(model) or usual,
        pci_class=nic.get("pci_class") or ("0207" if draft.link_layer == "InfiniBand" else "0200"),
        driver=draft.driver if nic.get("bound", True) else "",
        numa_node=-1 if nic.get("numa_node") is None else nic["numa_node"],
        physfn=str(draft.physfn or ""),
        total_vfs=16 if is_owner else 0,
        vpd=str(nic.get("vpd", "")),
    )


def _listed_function(entry: Mapping[str, Any]) -> Function:
    model = str(entry.get("description") or "")
    virtio = "virtio" in model.lower()
    vendor = entry.get("vendor") or ("1af4" if virtio else "15b3")
    driver = "virtio-pci" if virtio else profiles.driver_of("", vendor)
    address = addresses.parse(entry["pci_address"])
    return Function(
        address=str(address),
        path=address.bridge_path,
        vendor=vendor,
        device_id=entry.get("device_id") or profiles.device_id_of(model) or PROFILES["mlx5_core"].device_id,
        pci_class=entry.get("class") or "0200",
        driver=entry.get("driver", driver) or "",
        numa_node=-1 if entry.get("numa_node") is None else entry["numa_node"],
        physfn=entry.get("physfn")
        or (str(Address(address.domain, address.bus, 0, 0)) if "Virtual Function" in model else ""),
    )


def _bridge_path(address: Address, link: str | None) -> str:
    """From a ``../../devices/<path>/<address>/infiniband/<name>`` link, where a capture has it."""
    return link.split("devices/", 1)[1].split(f"/{address}/")[0] if link else address.bridge_path


# --- netdevs --------------------------------------------------------------------------------------------------------


def _give_netdevs(drafts: list[_Draft], facts: Mapping[str, Any]) -> None:
    """The functions' own netdevs (both, with LAG) and the bond. A pod's own view has none of them."""
    taken = {draft.bond for draft in drafts if draft.bond}
    for draft in drafts:
        if draft.is_lag and not draft.bond:
            draft.bond = next(
                name for name in (f"bond{number}" for number in range(len(taken) + 1)) if name not in taken
            )
            taken.add(draft.bond)
        said = draft.facts.get("netdevs")
        draft.netdevs = [name for name in said or [] if name != draft.bond]
        if said is None or (draft.is_lag and len(draft.netdevs) < 2):
            draft.netdevs = _usual_netdevs(draft)


def _usual_netdevs(draft: _Draft) -> list[str]:
    if draft.driver == "efa":
        return []
    if draft.address is None or draft.driver == "erdma":
        return ["eth1"]
    if draft.is_lag:
        first = draft.netdevs[0] if draft.netdevs else addresses.path_name(draft.address, "en") + "f0np0"
        return [first, _next_name(first)]
    if draft.link_layer == "InfiniBand":
        return [addresses.path_name(draft.address, "ib")]
    suffix = f"f{draft.address.function}" + (f"np{draft.address.function}" if draft.driver == "mlx5_core" else "")
    return [addresses.path_name(draft.address, "en") + suffix]


def _next_name(name: str) -> str:
    """The second port's netdev: enp3s0f0np0 to enp3s0f1np1, reth0 to reth1."""
    if name.endswith("f0np0"):
        return name[: -len("f0np0")] + "f1np1"
    stem = name.rstrip("0123456789")
    return f"{stem}{int(name[len(stem) :] or 0) + 1}"


def _netdevs(drafts: list[_Draft], facts: Mapping[str, Any]) -> tuple[Netdev, ...]:
    found: dict[str, Netdev] = {}
    for draft in drafts:
        for position, name in enumerate(() if facts.get("pod_view") else draft.netdevs):
            if draft.address is None or draft.driver == "erdma":  # RDMA on top of a netdev of another device
                found[name] = Netdev(name=name, mac=gids.mac(name), bus="virtio")
                continue
            address = replace(draft.address, function=position) if draft.is_lag else draft.address
            infiniband = name.startswith("ib") or (draft.link_layer == "InfiniBand" and len(draft.port_facts) == 1)
            found[name] = Netdev(
                name=name,
                mac=gids.mac(str(address), position),
                function=str(address),
                sub_function=draft.facts.get("aux_device") or "",
                infiniband=infiniband,
                up=str(draft.facts.get("netdev_state") or "Up") == "Up",
                master=draft.bond or draft.facts.get("master") or "",
                dev_port=0 if draft.is_lag else position,
                phys_port_name=f"p{address.function}" if draft.driver == "mlx5_core" and not infiniband else "",
                phys_switch_id=draft.switch_id,
            )
        for name, port_name in () if facts.get("pod_view") else (draft.facts.get("representors") or {}).items():
            found[name] = Netdev(
                name=name,
                mac=gids.mac(name),
                function=str(draft.address),
                phys_port_name=port_name,
                phys_switch_id=draft.switch_id,
            )
        if draft.bond and not facts.get("pod_view"):
            found[draft.bond] = Netdev(name=draft.bond, mac=gids.mac(draft.bond), is_bond=True)
    extra = facts.get("netdevs")
    for entry in [_UPLINK] if extra is None else extra:
        found.setdefault(entry["name"], Netdev(**{"mac": gids.mac(entry["name"]), **entry}))
    return tuple(found.values())


# --- RDMA devices ---------------------------------------------------------------------------------------------------


def _rdma_device(draft: _Draft) -> RdmaDevice:
    nic, profile = draft.facts, draft.profile
    guid = gids.guid(nic.get("node_guid")) or gids.made_up_guid(str(draft.address or draft.name), draft.index)
    device_id = nic.get("device_id") or profile.device_id
    uverbs = str(nic.get("uverbs") or "")
    return RdmaDevice(
        name=draft.name,
        node_guid=guid,
        sys_image_guid=gids.guid(nic.get("sys_image_guid")) or guid,
        node_type=profile.node_type,
        node_desc=profile.node_desc,
        fw_ver=str(nic.get("fw") or profile.fw_ver),
        ports=tuple(_port(draft, guid, facts) for facts in draft.port_facts),
        function=str(draft.address or ""),
        sub_function=nic.get("aux_device") or "",
        sf_number=nic.get("sf_number"),
        parent=draft.netdevs[0] if draft.driver in profiles.SOFTWARE else "",
        hca_type=str(nic.get("hca_type") or (f"MT{int(device_id, 16)}" if profile.vendor == "15b3" else "")),
        board_id=str(nic.get("board_id") or ("MT_0000000838" if profile.vendor == "15b3" else "")),
        abi_version=profile.abi_version,
        counters=profile.counters,
        hw_counters=profile.hw_counters,
        uverbs_number=int(uverbs.removeprefix("uverbs")) if uverbs else None,
    )


def _port(draft: _Draft, guid: str, facts: Mapping[str, Any]) -> Port:
    nic, profile = draft.facts, draft.profile
    layer = facts.get("link_layer") or draft.link_layer
    state = _numbered_state(facts.get("state") or ("DOWN" if _is_dead(draft, layer) else "ACTIVE"))
    infiniband = layer == "InfiniBand"
    table = 8 if infiniband else int(nic.get("gid_table") or profile.table_size)
    lid = facts.get("base_lid", facts.get("port_lid"))
    return Port(
        number=facts["port"],
        state=state,
        phys_state=facts.get("phys_state") or _phys_state(state, infiniband),
        link_layer=layer,
        rate=_rate(facts.get("rate"), profile),
        gids=gids.table(
            [] if draft.switch_id else facts.get("gids"),  # no RoCE on a function in switchdev mode
            guid=guid,
            infiniband=infiniband,
            netdev=facts.get("netdev") or draft.bond or next(iter(draft.netdevs), ""),
            mac=gids.mac(draft.bond or str(draft.address or draft.name)),
            types=profile.gid_types,
            addresses=nic.get("addresses"),
        ),
        table_size=table,
        lid=profile.lid if lid is None else hex(int(str(lid), 0)),
        cap_mask="0x2651e848" if infiniband else "0x00010000",
        umad=bool(nic.get("umad") if nic.get("umad") is not None else profile.umad),
        issm=bool(nic.get("issm") if nic.get("issm") is not None else infiniband or profile.issm),
    )


def _phys_state(state: str, infiniband: bool) -> str:
    """Without a link, InfiniBand goes on looking for one."""
    if not state.endswith("DOWN"):
        return "5: LinkUp"
    return "2: Polling" if infiniband else "3: Disabled"


def _is_dead(draft: _Draft, layer: str) -> bool:
    """An InfiniBand netdev is often down over a working port; only a VF's tells: its port is down without a GUID."""
    return draft.facts.get("netdev_state") == "Down" and (layer != "InfiniBand" or draft.physfn is not None)


def _numbered_state(state: str) -> str:
    return state if ":" in state else f"{_STATE_NUMBERS[state]}: {state}"


def _rate(rate: Any, profile: Profile) -> str:
    """ "200" and "4X x 25.0 Gbps" are what tools print; sysfs has "200 Gb/sec (4X HDR)"."""
    if rate is None:
        return profile.rate
    if "x" in str(rate) and str(rate).endswith("Gbps"):
        lanes, speed = str(rate).removesuffix(" Gbps").split("X x ")
        return profiles.rate_of(int(int(lanes) * float(speed)))
    text = str(rate).removesuffix(" Gb/sec")
    return profiles.rate_of(int(text)) if text.isdigit() else str(rate)


def _modules(drafts: list[_Draft], facts: Mapping[str, Any]) -> tuple[str, ...]:
    if facts.get("modules") is not None:
        return tuple(facts["modules"])
    return (
        tuple(dict.fromkeys((*_NODE_MODULES, "rdma_ucm", *_of_drivers(draft.driver for draft in drafts))))
        if drafts
        else ()
    )


def _of_drivers(drivers: Iterable[str]) -> list[str]:
    return [module for driver in drivers for module in PROFILES[driver].modules]
