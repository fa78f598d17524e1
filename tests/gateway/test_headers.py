"""Which headers pass a hop, and who a client is. Pure."""

from __future__ import annotations

import ipaddress

import pytest

from workspaces.gateway.headers import client_of, is_preview_host, named_by_connection

FRONT = (ipaddress.ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(("peer", "said", "proto", "trusted", "expected"), [
    ("203.0.113.9", "1.2.3.4", "https", (), ("203.0.113.9", "http")),
    ("203.0.113.9", "1.2.3.4", "https", FRONT, ("203.0.113.9", "http")),
    ("10.0.0.1", "1.2.3.4", "https", FRONT, ("1.2.3.4", "https")),
    ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.7", "https", FRONT, ("1.2.3.4", "https")),
    ("10.0.0.1", None, "gopher", FRONT, ("10.0.0.1", "http")),
    ("10.0.0.1", "10.0.0.2", None, FRONT, ("10.0.0.1", "http")),
    ("not an address", "1.2.3.4", "https", FRONT, ("not an address", "http")),
])
def test_only_a_front_we_were_told_of_is_believed(peer, said, proto, trusted, expected) -> None:
    assert client_of(peer, said, proto, "http", trusted) == expected


@pytest.mark.parametrize("host", [
    "3000--aaaaaaaaaaaaaaaaaaaa.preview.localhost", "3000--AAAA.PREVIEW.localhost:8000", "preview.localhost",
    "a.b.preview.localhost.", "x.preview.localhost.:80"])
def test_every_name_below_the_preview_domain_is_a_previews(host: str) -> None:
    assert is_preview_host(host, "preview.localhost")


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "mypreview.localhost", "preview.localhost.example",
                                  "[::1]:8000", ""])
def test_other_names_are_not(host: str) -> None:
    assert not is_preview_host(host, "preview.localhost")


def test_what_connection_names_is_for_this_hop_only() -> None:
    assert named_by_connection([(b"connection", b"close, X-Secret"), (b"x", b"y")]) == {b"close", b"x-secret"}
