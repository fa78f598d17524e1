"""What admins may set, and what it comes to for one person: pure. Read by policies (rows), quota, idle and retention.

    workspace's own wish ─▶ user ─▶ groups (the most generous) ─▶ default ─▶ built in     first that says something
    upper bound:             user ─▶ groups (the highest)       ─▶ default ─▶ none        caps whatever was found

A value of None is "never" for times, "no limit" for counts and "none" for a bound of the network. Quotas are counted
as `Amount`: every workspace that is not deleted counts as one, with its disk; processors, memory and "running" count
for those that should run or still do. A failed one costs nothing but its place and its disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from workspaces import network_terms

#: A number or None; of the network's terms also a policy or a list of ranges.
Value = Any
Terms = Mapping[str, Mapping[str, Any]]
LONGEST_S = 20 * 366 * 86400
MOST = 2**40


class Kind(StrEnum):
    TIME = "time"      # seconds; None and 0: never
    COUNT = "count"    # None: no limit
    FLAG = "flag"      # 0 or 1
    EGRESS = "egress"  # what machines may reach, as a workspace's `network` says it; None: anything
    RANGES = "ranges"  # a list of address ranges


#: Every term and what kind of number it is. A notice is given `notice_s` before anything is removed.
KINDS: dict[str, Kind] = {
    "standby_after_s": Kind.TIME, "stop_after_s": Kind.TIME, "trash_after_s": Kind.TIME, "purge_after_s": Kind.TIME,
    "notice_s": Kind.COUNT, "max_hold_s": Kind.COUNT,
    "checkpoint_keep_last": Kind.COUNT, "checkpoint_expiry_s": Kind.TIME,
    "auto_checkpoints": Kind.FLAG, "auto_checkpoint_interval_s": Kind.TIME,
    "audit_keep_s": Kind.TIME,
    "workspaces": Kind.COUNT, "running": Kind.COUNT, "cpus": Kind.COUNT, "memory_mib": Kind.COUNT,
    "disk_gib": Kind.COUNT, "checkpoints": Kind.COUNT,
    "network_default": Kind.EGRESS, "network_bound": Kind.EGRESS, "network_private": Kind.RANGES,
    "network_connections": Kind.COUNT, "network_bytes_per_s": Kind.COUNT, "network_dns_per_s": Kind.COUNT,
}
#: The least a time may be: shorter would end what somebody has just begun.
LEAST_S = {"standby_after_s": 60, "stop_after_s": 60, "trash_after_s": 3600, "purge_after_s": 60,
           "checkpoint_expiry_s": 60, "auto_checkpoint_interval_s": 60, "audit_keep_s": 86400}
DOCUMENTS = frozenset({Kind.EGRESS, Kind.RANGES})
#: Of the whole instance: a group or a person has none of their own.
OF_INSTANCE = frozenset({"audit_keep_s"})
QUOTAS = ("workspaces", "running", "cpus", "memory_mib", "disk_gib", "checkpoints")
#: What a workspace may ask for itself.
OWN = ("standby_after_s", "stop_after_s")


@dataclass(frozen=True)
class Effective:
    """What holds, who said so, and under which bound. `source`: workspace, user, group:NAME, default, built_in."""

    value: Value
    source: str
    upper_bound: int | None = None
    capped: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source, "upper_bound": self.upper_bound, "capped": self.capped}


@dataclass(frozen=True)
class Layers:
    """Everything that has a say about one person."""

    built_in: Mapping[str, Value]
    default: Terms
    groups: tuple[tuple[str, Terms], ...] = ()
    user: Terms | None = None


def resolve(layers: Layers, own: Mapping[str, Any] | None = None) -> dict[str, Effective]:
    """Every term's effective value. `own` is a workspace's `idle`."""
    return {name: _capped(name, *_found(layers, own or {}, name), _bound(layers, name)) for name in KINDS}


def _found(layers: Layers, own: Mapping[str, Any], name: str) -> tuple[Value, str]:
    if name in OWN and name in own:
        return _normal(name, own[name]), "workspace"
    if layers.user is not None and "value" in layers.user.get(name, {}):
        return _normal(name, layers.user[name]["value"]), "user"
    said = [(_normal(name, terms[name]["value"]), f"group:{group}") for group, terms in layers.groups
            if "value" in terms.get(name, {})]
    if said:
        return max(said, key=lambda pair: (_generosity(pair[0]), pair[1]))
    if "value" in layers.default.get(name, {}):
        return _normal(name, layers.default[name]["value"]), "default"
    return _normal(name, layers.built_in.get(name)), "built_in"


def _bound(layers: Layers, name: str) -> int | None:
    if layers.user is not None and "upper_bound" in layers.user.get(name, {}):
        return _number(layers.user[name]["upper_bound"])
    said = [_number(terms[name]["upper_bound"]) for _, terms in layers.groups if "upper_bound" in terms.get(name, {})]
    if said:
        return max(said, key=_generosity)
    return _number(layers.default.get(name, {}).get("upper_bound"))


def _capped(name: str, value: Value, source: str, bound: int | None) -> Effective:
    if bound is not None and _generosity(value) > bound:
        return Effective(bound, source, bound, capped=True)
    return Effective(value, source, bound)


def _normal(name: str, value: Any) -> Value:
    if KINDS[name] in DOCUMENTS:
        return value
    number = _number(value)
    return None if number == 0 and KINDS[name] is Kind.TIME else number


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _generosity(value: Value) -> float:
    """Never, and no limit, are the most that can be given."""
    if isinstance(value, dict | list):
        return network_terms.generosity(value)
    return float("inf") if value is None else float(value)


def refusals(terms: Any) -> dict[str, str]:
    """What is wrong with terms that somebody wants to set: term -> why. Empty: nothing."""
    if not isinstance(terms, Mapping):
        return {"terms": "An object of terms."}
    return {str(name): why for name, said in terms.items() if (why := _refusal(name, said))}


def _refusal(name: Any, said: Any) -> str:
    if name not in KINDS:
        return f"Unknown term; there are {', '.join(KINDS)}."
    if not isinstance(said, Mapping) or set(said) - {"value", "upper_bound"}:
        return 'An object with "value", "upper_bound" or both.'
    if KINDS[name] in DOCUMENTS:
        return network_terms.refusal(name, said)
    for word in ("value", "upper_bound"):
        if word in said and (why := _number_refusal(name, said[word], word)):
            return why
    value, bound = said.get("value", 0), said.get("upper_bound")
    if "value" in said and bound is not None and _generosity(_normal(name, value)) > bound:
        return f"The value is above the upper bound {bound} (no value, and never, are above every bound)."
    return ""


def _number_refusal(name: str, value: Any, word: str) -> str:
    if value is None:
        return "0 or 1." if KINDS[name] is Kind.FLAG and word == "value" else ""
    least, most = network_terms.LIMITS.get(name, (0, LONGEST_S if name.endswith("_s") else MOST))
    if type(value) is not int or not 0 <= value <= MOST:
        return "A whole number, or null."
    if not least <= value <= most:
        return f"A whole number from {least} to {most}, or null."
    if KINDS[name] is Kind.FLAG and value > 1:
        return "0 or 1."
    least = LEAST_S.get(name, 0)
    if 0 < value < least or (word == "upper_bound" and value < least):
        return f"At least {least}" + (", or 0 or null for never." if word == "value" else ".")
    return ""


def idle_refusals(wanted: Mapping[str, Any], effective: Mapping[str, Effective]) -> dict[str, str]:
    """What of a workspace's own wishes is above what its owner may have."""
    found = {}
    for name in OWN:
        bound = effective[name].upper_bound
        if name in wanted and bound is not None and _generosity(_normal(name, wanted[name])) > bound:
            found[name] = f"At most {bound}, by policy."
    return found


# -- quotas --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Amount:
    workspaces: int = 0
    running: int = 0
    cpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    checkpoints: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(**{kind: getattr(self, kind) + getattr(other, kind) for kind in QUOTAS})

    def times(self, count: int) -> Amount:
        return Amount(**{kind: getattr(self, kind) * count for kind in QUOTAS})

    def to_json(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Excess:
    """Which limit refuses, so that a person can see what to give up."""

    kind: str
    limit: int
    used: int
    wanted: int


def excess(limits: Mapping[str, int | None], used: Amount, wanted: Amount) -> Excess | None:
    """The first limit that `wanted` on top of `used` would break. Asking for nothing of a kind never breaks it, so a
    limit below the present use refuses growth and nothing else."""
    for kind in QUOTAS:
        asks, has, most = getattr(wanted, kind), getattr(used, kind), limits.get(kind)
        if most is not None and asks > 0 and has + asks > most:
            return Excess(kind, most, has, asks)
    return None
