"""May this machine go there? The one place that decides. Pure: upstairs asks it before a policy is kept, egressd for
each question, connection and request.

        document ── mode ── private address ── the workspace's policy ── the admin's bound ──▶ Verdict

What is asked knows only what the guest cannot lie about: `name` is one that egressd itself resolved to `address`. A
rule that looks at requests lets a connection begin (`per_request`) and is asked again for each request in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from urllib.parse import unquote_to_bytes

from sandboxes.egress.documents import (
    MODES,
    WEB_PORTS,
    Document,
    Invalid,
    Limits,
    Policy,
    Rule,
    address_of,
    is_name,
    parse_bound,
    parse_cidr,
    parse_document,
    parse_domain,
    parse_policy,
    parse_rule,
)

__all__ = ["MODES", "PRIVATE", "WEB_PORTS", "Document", "Invalid", "Limits", "Policy", "Rule", "Verdict", "address_of",
           "askable", "covers_name", "decide", "is_name", "is_private", "may_resolve", "parse_bound", "parse_cidr",
           "parse_document", "parse_domain", "parse_policy", "parse_rule"]

#: Never reached unless an admin allows it: what is near, what is the host's, what is nobody's. The ranges that books
#: use (TEST-NET) are as public as any other.
PRIVATE = tuple(IPv4Network(text) for text in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3",
))


@dataclass(frozen=True)
class Verdict:
    """`rule` says what decided (`rules[0]`, `mode`, `bound`, …), `reason` why it was refused (empty: allowed)."""

    allowed: bool
    rule: str
    reason: str = ""
    #: Allowed as a connection of plain HTTP whose every request is asked for.
    per_request: bool = False


def decide(document: Document, name: str | None, address: IPv4Address | None, port: int, method: str | None = None,
           path: str | None = None, *, own: bool = False) -> Verdict:
    """Whether a connection (with `method` and `path`: a request in it) is allowed. `own`: the address is the host's.

    `address` None judges what is known before there is one (a name that is asked about, a rule that is tried out).
    """
    if document.policy.mode == "deny-all":
        return Verdict(False, "mode", "mode")
    if address is not None and (own or is_private(address)) and not _covered(document.private_allowed, address):
        return Verdict(False, "private", "own_address" if own else "private")
    verdict = _by(document.policy, name, address, port, method, path)
    if not verdict.allowed or document.bound is None:
        return verdict
    bound = _by(document.bound, name, address, port, method, path)
    if not bound.allowed:
        return Verdict(False, "bound", "bound")
    return Verdict(True, verdict.rule, per_request=verdict.per_request or bound.per_request)


def may_resolve(document: Document, name: str) -> Verdict:
    """Whether this name may be asked for outside. It must be allowed by name: a range of addresses resolves nothing."""
    verdict = _resolves(document.policy, name)
    if verdict.allowed and document.bound is not None and not _resolves(document.bound, name).allowed:
        return Verdict(False, "bound", "bound")
    return verdict


def askable(document: Document, name: str | None, address: IPv4Address | None, port: int) -> bool:
    """Whether a member may be asked about it: the policy asks for what it does not know, and no bound forbids it."""
    if document.policy.mode != "rules" or not document.policy.ask:
        return False
    return document.bound is None or _by(document.bound, name, address, port, None, None).allowed


def is_private(address: IPv4Address) -> bool:
    return _covered(PRIVATE, address)


def covers_name(domain: str, name: str) -> bool:
    """`*.x` is any name below x, not x itself."""
    return name.endswith(domain[1:]) if domain.startswith("*.") else name == domain


def _covered(networks: Iterable[IPv4Network], address: IPv4Address) -> bool:
    return any(address in network for network in networks)


def _resolves(policy: Policy, name: str) -> Verdict:
    if policy.mode != "rules":
        return _by_mode(policy)
    for at, rule in enumerate(policy.rules):
        if rule.domain and covers_name(rule.domain, name):
            return Verdict(True, f"rules[{at}]")
    return Verdict(False, "rules", "no_rule")


def _by_mode(policy: Policy) -> Verdict:
    allowed = policy.mode == "allow-all"
    return Verdict(allowed, "mode", "" if allowed else "mode")


def _by(policy: Policy, name: str | None, address: IPv4Address | None, port: int, method: str | None,
        path: str | None) -> Verdict:
    """One policy's word. A rule for whole connections comes before one that must see requests."""
    if policy.mode != "rules":
        return _by_mode(policy)
    there = [(at, rule) for at, rule in enumerate(policy.rules) if _is_there(rule, name, address)]
    if not there:
        return Verdict(False, "rules", "no_rule")
    open_ports = [(at, rule) for at, rule in there if not rule.ports or port in rule.ports]
    if not open_ports:
        return Verdict(False, "rules", "port")
    for at, rule in open_ports:
        if not rule.of_requests:
            return Verdict(True, f"rules[{at}]")
    return _of_requests(open_ports, method, path)


def _of_requests(rules: list[tuple[int, Rule]], method: str | None, path: str | None) -> Verdict:
    if method is None:
        return Verdict(True, f"rules[{rules[0][0]}]", per_request=True)
    of_method = [(at, rule) for at, rule in rules if not rule.methods or method in rule.methods]
    if not of_method:
        return Verdict(False, "rules", "method")
    for at, rule in of_method:
        if _below(path or "", rule.path_prefix):
            return Verdict(True, f"rules[{at}]", per_request=True)
    return Verdict(False, "rules", "path")


def _is_there(rule: Rule, name: str | None, address: IPv4Address | None) -> bool:
    if rule.cidr is not None:
        return address is not None and address in rule.cidr
    return name is not None and covers_name(rule.domain, name)


def _below(path: str, prefix: str) -> bool:
    """Whether the path is the prefix or a name below it. What servers read differently (dots, doubled or escaped
    slashes, escapes within escapes) is below nothing."""
    if not prefix:
        return True
    bare = unquote_to_bytes(path.partition("?")[0])
    segments = bare.split(b"/")
    if (not path.startswith("/") or b"%" in bare or b"\\" in bare or any(byte < 0x20 for byte in bare)
            or any(segment in (b".", b"..") for segment in segments) or b"" in segments[1:-1]
            or bare.count(b"/") != path.partition("?")[0].count("/")):
        return False
    wanted = unquote_to_bytes(prefix)
    return bare.startswith(wanted if wanted.endswith(b"/") else wanted + b"/") or bare == wanted
