"""The judge of networks: what a policy may say, and what it means. Pure, so most of it is shown by properties."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.egress import policy
from sandboxes.egress.policy import Document, Invalid, decide, parse_document, parse_policy

PUBLIC = IPv4Address("203.0.113.7")


def document(*rules: dict[str, Any], mode: str = "rules", bound: dict[str, Any] | None = None,
             private: tuple[str, ...] = (), ask: bool = False) -> Document:
    said: dict[str, Any] = {"mode": mode}
    if mode == "rules":
        said |= {"rules": list(rules), "ask": ask}
    return parse_document({"revision": 1, "policy": said, "bound": bound, "private_allowed": list(private)})


@pytest.mark.parametrize(("rule", "field"), [
    ({}, "rules[0]"),
    ({"domain": "a.test", "cidr": "203.0.113.0/24"}, "rules[0]"),
    ({"domain": "a..test"}, "rules[0].domain"),
    ({"domain": "*"}, "rules[0].domain"),
    ({"domain": "a.*.test"}, "rules[0].domain"),
    ({"domain": "https://a.test"}, "rules[0].domain"),
    ({"domain": "203.0.113.7"}, "rules[0].domain"),
    ({"domain": "-a.test"}, "rules[0].domain"),
    ({"domain": 5}, "rules[0].domain"),
    ({"cidr": "2001:db8::/32"}, "rules[0].cidr"),
    ({"cidr": "203.0.113.7/24"}, "rules[0].cidr"),
    ({"cidr": "203.0.113.0/33"}, "rules[0].cidr"),
    ({"cidr": "203.0.113.256"}, "rules[0].cidr"),
    ({"cidr": "0.0.0.0/255.0.0.0"}, "rules[0].cidr"),
    ({"domain": "a.test", "ports": []}, "rules[0].ports"),
    ({"domain": "a.test", "ports": [0]}, "rules[0].ports"),
    ({"domain": "a.test", "ports": [True]}, "rules[0].ports"),
    ({"domain": "a.test", "methods": ["GET"]}, "rules[0].ports"),
    ({"domain": "a.test", "ports": [80, 443], "path_prefix": "/x"}, "rules[0].ports"),
    ({"domain": "a.test", "ports": [80], "methods": ["GE T"]}, "rules[0].methods"),
    ({"domain": "a.test", "ports": [80], "path_prefix": "x"}, "rules[0].path_prefix"),
    ({"domain": "a.test", "inject": {}}, "rules[0].inject"),
    ("a.test", "rules[0]"),
])
def test_a_rule_that_says_nothing_clear_is_refused_by_its_field(rule: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_policy({"mode": "rules", "rules": [rule]})
    assert refused.value.field == field
    assert refused.value.words.endswith(".")


@pytest.mark.parametrize(("said", "field"), [
    ([], ""), ({"mode": "open"}, "mode"), ({"mode": "allow-all", "rules": [{"domain": "a.test"}]}, "rules"),
    ({"mode": "deny-all", "ask": True}, "ask"), ({"mode": "rules", "ask": 1}, "ask"),
    ({"mode": "rules", "why": 1}, "why"),
    ({"mode": "rules", "rules": [{"domain": "a.test"}] * 201}, "rules"),
])
def test_a_policy_that_contradicts_itself_is_refused(said: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_policy(said)
    assert refused.value.field == field


def test_what_means_the_same_is_spelled_the_same() -> None:
    parsed = parse_policy({"mode": "rules", "rules": [
        {"domain": "Bücher.Example."}, {"domain": "*.EXAMPLE.org", "ports": [443, 80, 443]}, {"cidr": "203.0.113.7"},
        {"domain": "a.test", "ports": [80], "methods": ["get"], "path_prefix": "/x"}]})
    assert parsed.as_json() == {"mode": "rules", "ask": False, "rules": [
        {"domain": "xn--bcher-kva.example", "ports": [80, 443]}, {"domain": "*.example.org", "ports": [80, 443]},
        {"cidr": "203.0.113.7/32"}, {"domain": "a.test", "ports": [80], "methods": ["GET"], "path_prefix": "/x"}]}
    assert parse_policy(parsed.as_json()) == parsed


def test_a_document_comes_back_as_it_was_read() -> None:
    read = document({"domain": "*.a.test"}, bound={"mode": "rules", "rules": [{"cidr": "203.0.113.0/24"}]},
                    private=("10.1.0.0/16",), ask=True)
    assert parse_document(read.as_json()) == read


def test_no_document_is_a_refusal_of_everything() -> None:
    assert decide(Document(), "a.test", PUBLIC, 443) == policy.Verdict(False, "mode", "mode")
    assert not policy.may_resolve(Document(), "a.test").allowed
    assert not decide(parse_document({"revision": 1, "policy": {"mode": "rules"}}), "a.test", PUBLIC, 443).allowed


@pytest.mark.parametrize(("name", "port", "reason"), [
    ("a.test", 443, ""), ("a.test", 80, ""), ("a.test", 22, "port"), ("x.a.test", 443, "no_rule"),
    ("x.w.test", 443, ""), ("y.x.w.test", 443, ""), ("w.test", 443, "no_rule"), ("xw.test", 443, "no_rule"),
    ("a.test.evil.test", 443, "no_rule"), (None, 443, "no_rule"), ("git.test", 22, ""), ("git.test", 443, "port"),
])
def test_a_domain_covers_itself_and_a_star_what_is_below(name: str | None, port: int, reason: str) -> None:
    judged = decide(document({"domain": "a.test"}, {"domain": "*.w.test"}, {"domain": "git.test", "ports": [22]}),
                    name, PUBLIC, port)
    assert (judged.allowed, judged.reason) == (not reason, reason)


def test_a_range_allows_every_port_of_its_addresses_whatever_their_name() -> None:
    ranged = document({"cidr": "203.0.113.0/24"})
    assert decide(ranged, None, PUBLIC, 5432).rule == "rules[0]"
    assert decide(ranged, "a.test", PUBLIC, 22).allowed
    assert decide(ranged, None, IPv4Address("198.51.100.1"), 443).reason == "no_rule"
    assert not policy.may_resolve(ranged, "a.test").allowed


@pytest.mark.parametrize("text", ["0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254",
                                  "172.31.255.255", "192.0.0.8", "192.168.1.1", "198.19.0.1",
                                  "224.0.0.1", "255.255.255.255", "240.0.0.1"])
def test_what_is_near_is_refused_in_every_mode_unless_an_admin_allows_it(text: str) -> None:
    address = IPv4Address(text)
    for open_wide in (document(mode="allow-all"), document({"cidr": "0.0.0.0/0"}), document({"domain": "a.test"})):
        assert decide(open_wide, "a.test", address, 443) == policy.Verdict(False, "private", "private")
    assert decide(document(mode="allow-all", private=(f"{text}/32",)), "a.test", address, 443).allowed
    assert not decide(document(private=(f"{text}/32",)), "a.test", address, 443).allowed


def test_the_hosts_own_addresses_are_refused_even_where_they_are_public() -> None:
    assert decide(document(mode="allow-all"), None, PUBLIC, 22, own=True).reason == "own_address"
    assert decide(document(mode="allow-all", private=("203.0.113.7/32",)), None, PUBLIC, 22, own=True).allowed


def test_a_bound_takes_away_and_never_gives() -> None:
    bound = {"mode": "rules", "rules": [{"domain": "*.corp.test"}]}
    assert decide(document(mode="allow-all", bound=bound), "a.test", PUBLIC, 443).reason == "bound"
    assert decide(document(mode="allow-all", bound=bound), "a.corp.test", PUBLIC, 443).allowed
    assert decide(document({"domain": "b.test"}, bound=bound), "a.corp.test", PUBLIC, 443).reason == "no_rule"
    assert policy.may_resolve(document(mode="allow-all", bound=bound), "a.test").reason == "bound"
    asks = document(ask=True, bound=bound)
    assert policy.askable(asks, "x.corp.test", None, 443)
    assert not policy.askable(asks, "a.test", None, 443)
    assert not policy.askable(document({"domain": "b.test"}), "a.test", None, 443)


@pytest.mark.parametrize(("method", "path", "reason"), [
    ("GET", "/x", ""), ("GET", "/x/y?z=../", ""), ("HEAD", "/x", "method"), ("GET", "/xy", "path"),
    ("GET", "/", "path"),
    ("GET", "/x/../secret", "path"), ("GET", "/x/%2e%2e/secret", "path"), ("GET", "/x/%252e%252e/s", "path"),
    ("GET", "/x%2f..%2fs", "path"), ("GET", "/x//y", "path"), ("GET", "/x\\..\\s", "path"), ("GET", "/%78/y", ""),
    ("GET", "http://a.test/x", "path"), ("GET", "*", "path"),
])
def test_a_rule_for_requests_judges_each_of_them(method: str, path: str, reason: str) -> None:
    judge = document({"domain": "a.test", "ports": [80], "methods": ["GET"], "path_prefix": "/x"})
    assert decide(judge, "a.test", PUBLIC, 80) == policy.Verdict(True, "rules[0]", per_request=True)
    judged = decide(judge, "a.test", PUBLIC, 80, method, path)
    assert (judged.allowed, judged.reason) == (not reason, reason)
    assert decide(judge, "a.test", PUBLIC, 443).reason == "port"


def test_a_rule_for_whole_connections_comes_before_one_for_requests() -> None:
    both = document({"domain": "a.test", "ports": [80], "methods": ["GET"]}, {"domain": "*.w.test"},
                    {"domain": "a.test"})
    assert decide(both, "a.test", PUBLIC, 80) == policy.Verdict(True, "rules[2]")


LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
ADDRESSES = st.integers(0, 2**32 - 1).map(IPv4Address)
NETWORKS = st.tuples(ADDRESSES, st.integers(0, 32)).map(lambda made: str(IPv4Network(made, strict=False)))
PORTS = st.integers(1, 65535)
RULES = st.one_of(
    st.fixed_dictionaries({"domain": st.one_of(NAMES, NAMES.map("*.{}".format))},
                          optional={"ports": st.lists(PORTS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"cidr": NETWORKS}, optional={"ports": st.lists(PORTS, min_size=1, max_size=3)}))
POLICIES = st.one_of(st.sampled_from([{"mode": "allow-all"}, {"mode": "deny-all"}]),
                     st.lists(RULES, max_size=4).map(lambda rules: {"mode": "rules", "rules": rules}))
DOCUMENTS = st.fixed_dictionaries({"revision": st.integers(1, 99), "policy": POLICIES,
                                   "bound": st.one_of(st.none(), POLICIES),
                                   "private_allowed": st.lists(NETWORKS, max_size=2)})


@given(DOCUMENTS, NAMES, ADDRESSES, PORTS)
def test_nothing_private_is_allowed_that_no_admin_named(raw: dict[str, Any], name: str, address: IPv4Address,
                                                       port: int) -> None:
    read = parse_document(raw)
    if decide(read, name, address, port).allowed and policy.is_private(address):
        assert any(address in IPv4Network(allowed) for allowed in raw["private_allowed"])


@given(DOCUMENTS, NAMES, ADDRESSES, PORTS)
def test_a_bound_and_a_policy_both_allow_what_is_allowed(raw: dict[str, Any], name: str, address: IPv4Address,
                                                        port: int) -> None:
    both = decide(parse_document(raw), name, address, port).allowed
    alone = decide(parse_document(raw | {"bound": None}), name, address, port).allowed
    bound = raw["bound"] is None or decide(parse_document(raw | {"policy": raw["bound"], "bound": None}),
                                           name, address, port).allowed
    assert both == (alone and bound)


@given(DOCUMENTS, NAMES, ADDRESSES, PORTS)
def test_every_refusal_has_a_reason_and_every_allowance_has_none(raw: dict[str, Any], name: str, address: IPv4Address,
                                                                port: int) -> None:
    judged = decide(parse_document(raw), name, address, port)
    assert judged.allowed == (judged.reason == "")
    assert judged.rule


@given(DOCUMENTS)
def test_reading_twice_is_reading_once(raw: dict[str, Any]) -> None:
    once = parse_document(raw)
    assert parse_document(once.as_json()) == once


@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
                    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(
                        ["mode", "rules", "domain", "cidr", "ports", "policy", "revision"]), inner, max_size=4)),
                    max_leaves=12))
def test_whatever_is_read_is_understood_or_refused_by_name(raw: Any) -> None:
    try:
        parse_document(raw)
    except Invalid as refused:
        assert refused.words
