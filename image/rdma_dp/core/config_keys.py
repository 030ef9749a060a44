# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of the config file and what may stand behind each: one table per kind of mapping, and the way to read it.

Keys match in any case, as in today's shared device plugin (Go's JSON decoder); two keys that differ only by case are
one key given twice. ``null`` is as good as leaving a key out, there as here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Set, Tuple

from . import names
from .config_selectors import READERS as SELECTORS
from .config_values import Reader, Refused, choice, flag, integer, list_of, number, text
from .model import CHAR_DEVICE_KINDS, EXCLUSIVE, SHARED
from .problems import Report, Steps, kind, show

FILE = {
    "$schema": text(lambda found: None, {}),  # where editors find the schema; it means nothing to the plugin
    "periodicUpdateInterval": integer(0, 86400, {-1: "write 0 to switch the periodic rescan off"}),
}
HEALTH = {
    "pollInterval": number(0.1, 3600),
    "failAfter": integer(1, 1000, {}),
    "recoverAfter": integer(1, 1000, {}),
}
POOL = {
    "resourceName": text(names.refuse_name, names.NAME_SCHEMA),
    # Today's plugin spells the default "", too.
    "resourcePrefix": text(names.refuse_prefix, names.PREFIX_SCHEMA, unset=(None, "")),
    "mode": choice((SHARED, EXCLUSIVE)),
    "rdmaHcaMax": integer(
        1, names.MAX_DEVICES, {0: "remove the pool if it is to offer nothing", -1: "leave it out for 1000"}
    ),
    "rdmaHcaScope": choice(("node", "nic")),
    "devices": SELECTORS["ifNames"],
    "requiredCharDevices": list_of(choice(CHAR_DEVICE_KINDS), "uverbs", CHAR_DEVICE_KINDS, least=1),
    "healthPolicy": choice(("any", "all")),
    "excludeTopology": flag(),
    "nccl": flag(),
    "cdi": flag(),
}

# Which mapping a key belongs to, for the hint when it stands in another one.
_HOMES = {
    **dict.fromkeys(POOL, "into a pool, an entry of configList"),
    **dict.fromkeys(SELECTORS, "under selectors"),
    **dict.fromkeys(HEALTH, "under health"),
    **dict.fromkeys((*FILE, "health", "configList"), "at the top level"),
}


_NESTED = {"health": "write a mapping", "selectors": "write a mapping", "configList": "write a list of pools"}


def remedy(steps: Steps, written: str, value: object) -> str:
    """What to write instead of an unquoted scalar of YAML that is ``value`` (or None) to some and a text to others.

    It is something that is taken at this place; where neither the text nor the value would be, what is wanted there.
    """
    key = next((step for step in reversed(steps) if isinstance(step, str)), "").lower()
    nested = next((hint for name, hint in _NESTED.items() if name.lower() == key), "")
    reader = _reader_at(key, inside=isinstance(steps[-1], int)) if steps else None
    if reader is None:
        return nested or f"put it in quotes: {show(written)}"
    plain = reader.schema.get("type") in ("integer", "number", "boolean")
    try:
        found = reader.read(value if plain else written)
    except Refused as refused:
        return refused.notes[0][2]
    return f"write {show(found)}" if plain else f"put it in quotes: {show(written)}"


def _reader_at(key: str, *, inside: bool) -> Optional[Reader]:
    """How the value of a key is read, or an entry inside its list; None for a key that takes none."""
    known = {**FILE, **HEALTH, **POOL, **SELECTORS}
    found = next((reader for name, reader in known.items() if name.lower() == key), None)
    return found.item if found and inside else found


@dataclass
class Mapped:
    """A mapping of the file, read: normalised values by key, and where each key that was given stands."""

    values: Dict[str, Any] = field(default_factory=dict)  # of the keys whose values are right
    places: Dict[str, Steps] = field(default_factory=dict)  # of all known keys that are not null
    raw: Dict[str, object] = field(default_factory=dict)  # of the keys in ``nested``
    wrong: bool = False  # it is no mapping, or has a key that is not known


def read(
    value: object, steps: Steps, report: Report, readers: Mapping[str, Reader], nested: Tuple[str, ...] = ()
) -> Mapped:
    """Reads one mapping; every key that is unknown, given twice or has a wrong value is reported.

    ``nested`` are keys whose values the caller reads itself.
    """
    found = Mapped()
    if not isinstance(value, Mapping):
        found.wrong = True
        hint = "write keys and values; known here: " + ", ".join((*readers, *nested))
        report.add(steps, f"must be a mapping, not {kind(value)}", hint)
        return found
    known = {key.lower(): key for key in (*readers, *nested)}
    seen: Set[str] = set()
    for written, entry in value.items():
        place = (*steps, written)
        key = known.get(written.lower(), "") if isinstance(written, str) else ""
        if not key:
            found.wrong = True
            _unknown(written, place, report, tuple(known.values()))
            continue
        if key in seen:
            report.add(place, "is given twice", f"keys match in any case: leave one {key}")
        elif key in nested and entry is not None:
            found.places[key] = place
            found.raw[key] = entry
        elif key in readers and entry not in readers[key].unset:
            found.places[key] = place
            _read_value(readers[key], key, entry, place, report, found)
        seen.add(key)
    return found


def _read_value(reader: Reader, key: str, value: object, place: Steps, report: Report, found: Mapped) -> None:
    try:
        found.values[key] = reader.read(value)
    except Refused as refused:
        for inside, message, hint in refused.notes:
            report.add((*place, *inside), message, hint)


def _unknown(key: object, place: Steps, report: Report, known: Tuple[str, ...]) -> None:
    if not isinstance(key, str):
        hint = "YAML reads some words without quotes, like on and yes, as values; here, keys are: " + ", ".join(known)
        report.add(place, f"the key {show(key)} is {kind(key)}, not text", hint)
        return
    close = report.nearest(key, known)
    home = next((home for name, home in _HOMES.items() if name.lower() == key.lower()), "")
    elsewhere = report.nearest(key, _HOMES)
    if home:
        hint = f"move it {home}"
    elif close:
        hint = f"did you mean {close}?"
    elif elsewhere:
        hint = f"did you mean {elsewhere}? It belongs {_HOMES[elsewhere]}"
    else:
        hint = "known here: " + ", ".join(known)
    report.add(place, "is not a known key", hint)
