"""The admins' terms about networks: what they may say, how generous each is, and what all of them come to for one
machine. Pure. Read by `policy` (as terms among others) and by `networks` (which compiles by them).

    network_default      what a new workspace gets
    network_bound        an upper bound: what is not in it is refused, whatever a workspace's own policy says
    network_private      ranges of private addresses that may be reached all the same, where the policy allows them
    network_connections, network_bytes_per_s, network_dns_per_s
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from sandboxes.egress import documents
from sandboxes.egress import policy as egress

#: term -> the least and the most that it may be.
LIMITS = {"network_connections": (1, 65535), "network_bytes_per_s": (1, 2**40), "network_dns_per_s": (1, 10_000)}
BUILT_IN: dict[str, Any] = {
    "network_default": {"mode": "deny-all"}, "network_bound": None, "network_private": [],
    "network_connections": 256, "network_bytes_per_s": None, "network_dns_per_s": 50,
}
#: A machine that may reach nothing needs no more words than these, whatever its terms are.
CLOSED: dict[str, Any] = {"policy": {"mode": "deny-all"}, "bound": None, "private_allowed": []}


def refusal(name: str, said: Mapping[str, Any]) -> str:
    """Why this cannot be a term, or ""."""
    if "upper_bound" in said:
        return "It has no upper bound; `network_bound` is the one of all policies."
    try:
        _read(name, said.get("value"))
    except egress.Invalid as error:
        return f"{error.field}: {error.words}" if error.field else error.words
    return ""


def _read(name: str, value: Any) -> None:
    if name == "network_private":
        if not isinstance(value, list) or len(value) > documents.MAX_PRIVATE:
            raise egress.Invalid("", f"A list of at most {documents.MAX_PRIVATE} ranges such as 10.1.2.0/24.")
        for at, one in enumerate(value):
            egress.parse_cidr(one, f"[{at}]")
    elif name == "network_default":
        egress.parse_policy(value)
    elif value is not None:
        egress.parse_bound(value)


def generosity(value: Mapping[str, Any] | list[str]) -> float:
    """Of two groups' words the larger holds."""
    if isinstance(value, list):
        return float(sum(IPv4Network(one).num_addresses for one in value))
    if value["mode"] == "rules":
        return len(value.get("rules", ())) / (documents.MAX_RULES + 1)
    return 1.0 if value["mode"] == "allow-all" else -1.0


def compiled(policy: Mapping[str, Any], terms: Mapping[str, Any]) -> dict[str, Any]:
    """What a host is told, but for its number: this policy under these terms (name -> value)."""
    if policy.get("mode", "deny-all") == "deny-all":
        return CLOSED
    bound = terms["network_bound"]
    return {"policy": dict(policy), "bound": egress.parse_bound(bound).as_json() if bound is not None else None,
            "private_allowed": list(terms["network_private"]),
            "limits": {"connections": _limit(terms, "network_connections"),
                       "bytes_per_s": terms["network_bytes_per_s"] or 0,
                       "dns_per_s": _limit(terms, "network_dns_per_s")}}


def _limit(terms: Mapping[str, Any], name: str) -> int:
    """None is no limit: the most that there is a number for."""
    return LIMITS[name][1] if terms[name] is None else int(terms[name])
