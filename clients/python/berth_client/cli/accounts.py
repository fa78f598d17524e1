"""Commands about people: login, logout, whoami, tokens, members, approvals. Called by `main`.

A token is never an argument, which every process of the machine could read: it is asked for, or read from standard
input, or taken from BERTH_TOKEN.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from berth_client import Berth, config
from berth_client.cli import say
from berth_client.cli.asked import server, workspace
from berth_client.config import Access


def login(asked: argparse.Namespace) -> int:
    """The token is tried before it is kept."""
    url = config.normalized(asked.url or os.environ.get("BERTH_URL") or "http://127.0.0.1:8000")
    if asked.token_stdin or not sys.stdin.isatty():
        token = sys.stdin.readline()
    else:
        token = getpass.getpass(f"Token for {url}: ")
    access = Access(url, config.checked(token))
    with Berth(access.url, access.token) as berth:
        me = berth.me()
    config.save(config.place(), access)
    if asked.json:
        say.document(me.raw)
    else:
        say.note(f"Signed in to {url} as {say.shown(me.name)}; kept in {config.place()}.")
    return 0


def logout(asked: argparse.Namespace) -> int:
    """Forgets the token here; `tokens revoke` ends it everywhere."""
    gone = config.forget(config.place())
    if asked.json:
        say.document({"forgotten": gone})
    else:
        say.note("The token is forgotten here." if gone else "There was none.")
    return 0


def whoami(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        me = berth.me()
    if asked.json:
        say.document(me.raw)
        return 0
    print(f"{say.shown(me.name)}{' (admin)' if me.is_admin else ''}  at {berth.url}")
    say.table(("OF", "USED", "LIMIT"), ((name, used, "none" if me.quota.get(name) is None else me.quota[name])
                                        for name, used in me.used.items()))
    return 0


def tokens(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        found = list(berth.tokens.list())
    if asked.json:
        say.document([one.raw for one in found])
        return 0
    say.table(("ID", "NAME", "HINT", "SCOPES", "EXPIRES", "LAST USED"),
              ((one.id, one.name, one.hint, " ".join(one.scopes), one.expires_at, one.last_used_at) for one in found))
    return 0


def token_create(asked: argparse.Namespace) -> int:
    """Standard output is the secret and nothing else."""
    with server(asked) as berth:
        only = [workspace(berth, name).id for name in asked.workspace] if asked.workspace else None
        made = berth.tokens.create(asked.name, scopes=asked.scope, workspace_ids=only, expires_in_s=asked.expires_in_s)
    if asked.json:
        say.document(made.raw)
    else:
        say.note(f"Token {made.id}, shown this once:")
        print(made.secret)
    return 0


def token_revoke(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        berth.tokens.revoke(asked.id)
    if asked.json:
        say.document({"id": asked.id, "revoked": True})
    return 0


def members(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        found = list(workspace(berth, asked.workspace).members.list())
    if asked.json:
        say.document([one.raw for one in found])
        return 0
    say.table(("USER", "ROLE", "SINCE", "UNTIL"), ((one.user, one.role, one.added_at, one.expires_at) for one in found))
    return 0


def approvals(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        found = list(workspace(berth, asked.workspace).approvals.list(state=None if asked.all else "pending"))
    if asked.json:
        say.document([one.raw for one in found])
        return 0
    say.table(("ID", "KIND", "STATE", "BY", "WHAT", "UNTIL"),
              ((one.id, one.kind, one.state, one.actor.name if one.actor else None,
                one.request.get("command") or one.request or None, one.expires_at) for one in found))
    return 0


def decide(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        doors = workspace(berth, asked.workspace).approvals
        decided = doors.approve(asked.id) if asked.decision == "approve" else doors.deny(asked.id)
    if asked.json:
        say.document(decided.raw)
    else:
        print(f"{decided.id}  {decided.state}")
    return 0
