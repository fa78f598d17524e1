"""Commands for a workspace's network: `network` (what it may reach), `network-log` (what it tried). Run by `main`."""

from __future__ import annotations

import argparse
import re
from typing import Any

from berth_client.cli import say
from berth_client.cli.asked import server, workspace
from berth_client.model_network import Network
from berth_client.problems import BadConfig

RULE = re.compile(r"(?P<place>[^\s:/]+(?:/\d{1,2})?)(?::(?P<ports>\d+(?:,\d+)*))?\Z")
ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?\Z")


def network(asked: argparse.Namespace) -> int:
    """Shows it; with options changes it first."""
    with server(asked) as berth:
        one = workspace(berth, asked.workspace).network
        seen = one.get()
        wanted = changed(seen.network, asked)
        if wanted != seen.network:
            seen = one.set(wanted, revision=seen.revision)
    if asked.json:
        say.document(seen.raw)
    else:
        shown(seen)
    return 0


def changed(policy: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    """The policy with what was said to it. `--allow` alone makes it one of rules."""
    if asked.mode in ("deny-all", "allow-all"):
        if asked.allow or asked.forbid or asked.ask is not None:
            asked.refuse(f"rules belong to the mode rules, not to {asked.mode}")
        return {"mode": asked.mode}
    if asked.mode is None and not (asked.allow or asked.forbid) and asked.ask is None:
        return policy
    dropped = [words(rule_of(said)) for said in asked.forbid or ()]
    kept = [rule for rule in policy.get("rules", ()) if words(rule) not in dropped]
    there = {words(rule) for rule in kept}
    new = [rule for said in asked.allow or () if words(rule := rule_of(said)) not in there]
    ask = policy.get("ask", False) if asked.ask is None else asked.ask
    return {"mode": "rules", "rules": [*kept, *new], "ask": ask}


def rule_of(said: str) -> dict[str, Any]:
    """`pypi.org`, `*.example.org:443` or `203.0.113.0/24:22,80`."""
    found = RULE.match(said)
    if found is None:
        raise BadConfig(f"{said!r} is no destination; write it like pypi.org, *.example.org:443 or 203.0.113.0/24.")
    place, ports = found["place"], found["ports"]
    is_address = ADDRESS.match(place) is not None
    rule = {"cidr": place if "/" in place else f"{place}/32"} if is_address else {"domain": place.lower()}
    return {**rule, "ports": sorted(map(int, ports.split(",")))} if ports else dict(rule)


def words(rule: dict[str, Any]) -> str:
    ports = rule.get("ports") or ([80, 443] if "domain" in rule else [])
    methods = ",".join(rule.get("methods", ()))
    ported = "" if ("domain" in rule and ports == [80, 443]) or not ports else f":{','.join(map(str, ports))}"
    return f"{methods} {rule.get('domain') or rule.get('cidr')}{ported}{rule.get('path_prefix', '')}".strip()


def shown(seen: Network) -> None:
    policy = seen.network
    print(f"{policy['mode']}{', asks a member about the rest' if policy.get('ask') else ''}")
    for rule in policy.get("rules", ()):
        print(f"  {say.shown(words(rule))}")
    if seen.bound is not None:
        rules = ", ".join(words(rule) for rule in seen.bound.get("rules", ()))
        say.note(f"Admins allow at most {seen.bound['mode']}{': ' + rules if rules else ''}.")
    if not seen.supported:
        say.note("Its host lets no machine out, so it reaches nothing.")


def log(asked: argparse.Namespace) -> int:
    verdict = "refused" if asked.refused else None
    with server(asked) as berth:
        one = workspace(berth, asked.workspace).network
        found = list(one.log(verdict=verdict)) if asked.all else one.recent(verdict=verdict, limit=200)
    if asked.json:
        say.document([each.raw for each in found])
        return 0
    say.table(("AT", "VERDICT", "DESTINATION", "WHY", "IN", "OUT"),
              ((each.at, each.verdict, f"{each.name or each.address or '-'}:{each.port}", each.reason or each.rule,
                say.size(each.bytes_in), say.size(each.bytes_out)) for each in found))
    return 0
