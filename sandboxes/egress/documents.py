"""What a network policy may say, and its reading: from JSON to frozen values, or a named refusal. Pure.

Called by `policy`, which both floors import. Reading makes one spelling of what means the same (lower case, IDNA,
sorted ports): `as_json` gives that back, so what is kept upstairs is what egressd judges by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Any

import idna

MODES = ("allow-all", "deny-all", "rules")
MAX_RULES, MAX_PORTS, MAX_METHODS, MAX_PRIVATE, MAX_PATH = 200, 64, 16, 64, 1024
#: What a rule for a domain means when it names no port.
WEB_PORTS = (80, 443)

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_CIDR = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?\Z")
_METHOD = re.compile(r"[A-Z][A-Z0-9_-]{0,31}\Z")
_PATH = re.compile(r"/[!-~]*\Z")


class Invalid(ValueError):
    """A document that says what no policy can; `field` is where, `words` is for the person who wrote it."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}" if field else words)
        self.field = field
        self.words = words


@dataclass(frozen=True)
class Rule:
    """Either `domain` or `cidr`. No `ports`: any (of a cidr). With `methods` or `path_prefix`: for plain HTTP."""

    domain: str = ""
    cidr: IPv4Network | None = None
    ports: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    path_prefix: str = ""

    @property
    def of_requests(self) -> bool:
        return bool(self.methods or self.path_prefix)

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"domain": self.domain} if self.cidr is None else {"cidr": str(self.cidr)}
        if self.ports:
            said["ports"] = list(self.ports)
        if self.methods:
            said["methods"] = list(self.methods)
        if self.path_prefix:
            said["path_prefix"] = self.path_prefix
        return said


@dataclass(frozen=True)
class Policy:
    mode: str = "deny-all"
    rules: tuple[Rule, ...] = ()
    ask: bool = False

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"mode": self.mode}
        if self.mode == "rules":
            said["rules"] = [rule.as_json() for rule in self.rules]
            said["ask"] = self.ask
        return said


@dataclass(frozen=True)
class Limits:
    """`connections` at once, `bytes_per_s` of both directions together (0: no limit), `dns_per_s` questions."""

    connections: int = 256
    bytes_per_s: int = 0
    dns_per_s: int = 50


@dataclass(frozen=True)
class Document:
    """Everything that decides for one machine. Its default refuses everything."""

    revision: int = 0
    policy: Policy = Policy()
    bound: Policy | None = None
    private_allowed: tuple[IPv4Network, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def as_json(self) -> dict[str, Any]:
        return {"revision": self.revision, "policy": self.policy.as_json(),
                "bound": self.bound.as_json() if self.bound else None,
                "private_allowed": [str(network) for network in self.private_allowed],
                "limits": asdict(self.limits)}


def parse_document(raw: object) -> Document:
    """Raises Invalid."""
    said = _mapping(raw, "", {"revision", "policy", "bound", "private_allowed", "limits"})
    private = _listed(said.get("private_allowed", []), "private_allowed", MAX_PRIVATE)
    bound = said.get("bound")
    return Document(
        revision=_whole(said.get("revision"), "revision", 1, 2**53),
        policy=parse_policy(said.get("policy"), "policy"),
        bound=None if bound is None else parse_bound(bound, "bound"),
        private_allowed=tuple(parse_cidr(one, f"private_allowed[{at}]") for at, one in enumerate(private)),
        limits=_limits(said.get("limits", {})),
    )


def parse_policy(raw: object, where: str = "") -> Policy:
    """`{"mode", "rules"?, "ask"?}`. Raises Invalid."""
    said = _mapping(raw, where, {"mode", "rules", "ask"})
    mode = said.get("mode")
    if mode not in MODES:
        raise Invalid(_at(where, "mode"), f"The mode is one of {', '.join(MODES)}.")
    rules = _listed(said.get("rules") or [], _at(where, "rules"), MAX_RULES)
    ask = said.get("ask", False)
    if not isinstance(ask, bool):
        raise Invalid(_at(where, "ask"), "This is true or false.")
    if mode != "rules" and rules:
        raise Invalid(_at(where, "rules"), "Rules belong to the mode `rules`.")
    if mode != "rules" and ask:
        raise Invalid(_at(where, "ask"), "Asking belongs to the mode `rules`.")
    return Policy(mode, tuple(parse_rule(one, _at(where, f"rules[{at}]")) for at, one in enumerate(rules)), ask)


def parse_bound(raw: object, where: str = "") -> Policy:
    """An upper bound is a policy that never asks. Raises Invalid."""
    policy = parse_policy(raw, where)
    if policy.ask:
        raise Invalid(_at(where, "ask"), "An upper bound does not ask.")
    return policy


def parse_rule(raw: object, where: str = "") -> Rule:
    """Raises Invalid."""
    said = _mapping(raw, where, {"domain", "cidr", "ports", "methods", "path_prefix"})
    if ("domain" in said) == ("cidr" in said):
        raise Invalid(where, "A rule names either a `domain` or a `cidr`.")
    ports = _ports(said["ports"], _at(where, "ports")) if "ports" in said else ()
    methods = _methods(said["methods"], _at(where, "methods")) if "methods" in said else ()
    prefix = _prefix(said["path_prefix"], _at(where, "path_prefix")) if "path_prefix" in said else ""
    if (methods or prefix) and ports != (80,):
        raise Invalid(_at(where, "ports"), "Methods and paths can be seen in plain HTTP alone: "
                                           "a rule that names them has `ports` [80].")
    if "cidr" in said:
        return Rule(cidr=parse_cidr(said["cidr"], _at(where, "cidr")), ports=ports, methods=methods, path_prefix=prefix)
    domain = parse_domain(said["domain"], _at(where, "domain"))
    return Rule(domain=domain, ports=ports or WEB_PORTS, methods=methods, path_prefix=prefix)


def parse_domain(raw: object, where: str = "domain") -> str:
    """`example.org` or `*.example.org`, in the one spelling that names are compared in. Raises Invalid."""
    if not isinstance(raw, str) or not raw or len(raw) > 300:
        raise Invalid(where, "A domain is a name like example.org or *.example.org.")
    wild, name = ("*.", raw[2:]) if raw.startswith("*.") else ("", raw)
    try:
        ascii_name = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode().lower()
    except idna.IDNAError as error:
        raise Invalid(where, "This is no name that the internet's names can spell.") from error
    ascii_name = ascii_name.removesuffix(".")
    if not is_name(ascii_name):
        raise Invalid(where, "A domain is a name like example.org or *.example.org; labels are letters, digits and -.")
    if ascii_name.rsplit(".", 1)[-1].isdigit():
        raise Invalid(where, "An address is a `cidr`, not a domain.")
    return wild + ascii_name


def is_name(name: str) -> bool:
    """Whether this is spelled as names are compared: lower case, no dot at its end."""
    return len(name) <= 253 and all(_LABEL.match(label) for label in name.split("."))


def parse_cidr(raw: object, where: str = "cidr") -> IPv4Network:
    """Raises Invalid."""
    if isinstance(raw, str) and ":" in raw:
        raise Invalid(where, "Only IPv4 leaves a machine: write the address as 203.0.113.0/24.")
    if not isinstance(raw, str) or not _CIDR.match(raw):
        raise Invalid(where, "An address range is written as 203.0.113.0/24.")
    try:
        return IPv4Network(raw)
    except (AddressValueError, NetmaskValueError) as error:
        raise Invalid(where, "An address range is written as 203.0.113.0/24.") from error
    except ValueError as error:
        meant = IPv4Network(raw, strict=False)
        raise Invalid(where, f"This has bits beyond its length; the range is {meant}.") from error


def address_of(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except AddressValueError:
        return None


def _limits(raw: object) -> Limits:
    said = _mapping(raw, "limits", {"connections", "bytes_per_s", "dns_per_s"})
    default = Limits()
    return Limits(
        connections=_whole(said.get("connections", default.connections), "limits.connections", 1, 65535),
        bytes_per_s=_whole(said.get("bytes_per_s", default.bytes_per_s), "limits.bytes_per_s", 0, 2**40),
        dns_per_s=_whole(said.get("dns_per_s", default.dns_per_s), "limits.dns_per_s", 1, 10_000),
    )


def _ports(raw: object, where: str) -> tuple[int, ...]:
    ports = _listed(raw, where, MAX_PORTS)
    if not ports:
        raise Invalid(where, "A rule with ports names at least one.")
    return tuple(sorted({_whole(port, where, 1, 65535) for port in ports}))


def _methods(raw: object, where: str) -> tuple[str, ...]:
    methods = _listed(raw, where, MAX_METHODS)
    if not methods or not all(isinstance(method, str) and _METHOD.match(method.upper()) for method in methods):
        raise Invalid(where, "Methods are words like GET.")
    return tuple(sorted({str(method).upper() for method in methods}))


def _prefix(raw: object, where: str) -> str:
    if not isinstance(raw, str) or not _PATH.match(raw) or len(raw) > MAX_PATH or set(raw) & set("?#\\"):
        raise Invalid(where, "A path begins with / and is printable ASCII without ?, # and \\.")
    return raw


def _whole(raw: object, where: str, least: int, most: int) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= most:
        raise Invalid(where, f"This is a whole number from {least} to {most}.")
    return raw


def _listed(raw: object, where: str, most: int) -> list[Any]:
    if not isinstance(raw, list) or len(raw) > most:
        raise Invalid(where, f"This is a list of at most {most}.")
    return raw


def _mapping(raw: object, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise Invalid(where, "This is an object.")
    unknown = sorted(str(key) for key in raw if key not in known)
    if unknown:
        raise Invalid(_at(where, unknown[0][:100]), "This is no field of it.")
    return raw


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
