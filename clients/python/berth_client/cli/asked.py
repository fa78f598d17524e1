"""What a command was asked to work on: the server, a workspace by name or id, `NAME=VALUE` pairs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from berth_client import AsyncBerth, Berth, OneWorkspace
from berth_client.problems import BadConfig
from berth_client.retry import Retry

ID = re.compile(r"\A[a-z2-7]{20}\Z")


def server(asked: argparse.Namespace, retry: Retry | None = None) -> Berth:
    return Berth(asked.url, retry=retry)


def async_server(asked: argparse.Namespace, retry: Retry | None = None) -> AsyncBerth:
    return AsyncBerth(asked.url, retry=retry)


def workspace(berth: Berth, name: str) -> OneWorkspace:
    return berth.workspace(id_of(berth, name))


def id_of(berth: Berth, name: str) -> str:
    """By id, by name, or as owner/name where several people have one of that name."""
    if ID.match(name):
        return name
    owner, slash, own = name.partition("/")
    return berth.workspaces.named(own, owner=owner).id if slash else berth.workspaces.named(name).id


def pairs(said: Sequence[str] | None) -> dict[str, str] | None:
    if not said:
        return None
    for one in said:
        if "=" not in one:
            raise BadConfig(f"{one!r} is not NAME=VALUE.")
    return dict(one.split("=", 1) for one in said)
