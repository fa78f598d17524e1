"""What may be said to `berth-cli`: its commands and their options. Called by `main` and `completion`; runs nothing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from berth_client import __version__
from berth_client.cli import accounts, completion, copies, lives, networks, pasts, runs, screen, ways

Command = Callable[[argparse.Namespace], int]
OWN_FAILURE_OF_RUNS = 255


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="berth-cli", description="Berth's workspaces from a shell.", epilog=(
        "A WORKSPACE is its name, its id, or OWNER/NAME. Address and token: BERTH_URL and BERTH_TOKEN, else what "
        "`berth-cli login` kept."))
    root.add_argument("--version", action="version", version=f"berth-cli {__version__}")
    commands = Commands(root.add_subparsers(title="commands", metavar="COMMAND", required=True))
    for family in (of_accounts, of_lives, of_runs, of_files, of_networks, of_pasts, of_people):
        family(commands)
    return root


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What was said. Of `shell` the command stands behind `--` alone, so that its options may follow the name."""
    at = words.index("--") if words[:1] == ["shell"] and "--" in words else len(words)
    asked = parser().parse_args(words[:at])
    if at < len(words):
        asked.command = list(words[at + 1:])
    return asked


class Commands:
    def __init__(self, into: Any) -> None:
        self._into = into

    def add(self, name: str, run: Command, summary: str, **defaults: Any) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = self._into.add_parser(name, help=summary, description=summary)
        made.add_argument("--json", action="store_true", help="print JSON and nothing else")
        made.add_argument("--url", help="another server than the usual one")
        made.set_defaults(run=run, refuse=made.error, **defaults)
        return made

    def of_workspace(self, name: str, run: Command, summary: str, **defaults: Any) -> argparse.ArgumentParser:
        made = self.add(name, run, summary, **defaults)
        made.add_argument(completion.WORKSPACE, metavar="WORKSPACE")
        return made


def waits(made: argparse.ArgumentParser, default_s: float) -> None:
    made.add_argument("--wait-s", type=float, default=default_s, metavar="S",
                      help=f"wait so long for it, at most 300 ({default_s:g}); 0 returns at once")


def of_accounts(commands: Commands) -> None:
    login = commands.add("login", accounts.login, "keep an address and a token, readable by you alone")
    login.add_argument("--token-stdin", action="store_true", help="read the token from standard input")
    commands.add("logout", accounts.logout, "forget the token on this machine")
    commands.add("whoami", accounts.whoami, "who the token is, what is used and allowed")
    listing = commands.add("tokens", accounts.tokens, "one's own tokens")
    verbs = Commands(listing.add_subparsers(title="instead of a list", metavar="VERB"))
    made = verbs.add("create", accounts.token_create, "make a token; its secret is printed this once")
    made.add_argument("name")
    made.add_argument("--scope", action="append", metavar="SCOPE", help="may be given several times")
    made.add_argument("--workspace", action="append", metavar="WORKSPACE", help="limit it to this one")
    made.add_argument("--expires-in-s", type=int, metavar="S")
    verbs.add("revoke", accounts.token_revoke, "end a token, at once and for good").add_argument("id")
    script = commands.add("completion", completion.print_script, "print a completion script for your shell")
    script.add_argument("shell", choices=sorted(completion.SCRIPTS))


def of_lives(commands: Commands) -> None:
    create = commands.add("create", lives.create, "make a workspace; it starts at once")
    create.add_argument("name")
    for option, kind in (("--image", str), ("--cpus", int), ("--memory-mib", int), ("--disk-gib", int)):
        create.add_argument(option, type=kind)
    create.add_argument("--env", action="append", metavar="NAME=VALUE")
    create.add_argument("--label", action="append", metavar="KEY=VALUE")
    create.add_argument("--network", choices=("allow-all", "deny-all"))
    create.add_argument("--from-checkpoint", metavar="ID")
    waits(create, 120)
    listing = commands.add("list", lives.listing, "every workspace you may see")
    listing.add_argument("--state", help="only those in this state; `deleted` is the trash")
    listing.add_argument("--label", action="append", metavar="KEY=VALUE")
    commands.of_workspace("show", lives.show, "all that is known of one")
    for name, summary in (("start", "let it run"), ("stop", "let it stop; its disk stays"),
                          ("standby", "to rest with its memory; any call wakes it"),
                          ("restart", "a new body over the same disk")):
        waits(commands.of_workspace(name, lives.verb(name), summary), 120)
    rm = commands.of_workspace("rm", lives.rm, "into the trash")
    rm.add_argument("--purge", action="store_true", help="for good, at once")
    waits(rm, 0)
    waits(commands.of_workspace("undelete", lives.undelete, "out of the trash"), 0)


def of_runs(commands: Commands) -> None:
    run = commands.of_workspace("exec", runs.run, "run a command: one word is shell text, several run as they are",
                                attach=None, take=False, own_failure=OWN_FAILURE_OF_RUNS)
    run.add_argument("--tty", "-t", action="store_true", help="in a terminal of its own")
    run.add_argument("--no-stdin", "-n", action="store_true", help="give it no standard input")
    run.add_argument("--max-output-mib", type=int, default=16, metavar="MIB", help="keep at most so much (16; 64)")
    shell = commands.of_workspace("shell", screen.shell, "a login shell in a terminal; Ctrl-] leaves it running",
                                  own_failure=OWN_FAILURE_OF_RUNS)
    shell.add_argument("--attach", metavar="EXEC", help="go back to one that runs")
    shell.add_argument("--take", action="store_true", help="take the keyboard from whoever has it")
    shell.set_defaults(command=[])
    shell.epilog = "Another program than the login shell stands behind --: berth-cli shell WORKSPACE -- top"
    for made in (run, shell):
        made.add_argument("--user", "-u", help="as this user of the guest (user)")
        made.add_argument("--cwd", "-w", metavar="PATH")
        made.add_argument("--env", "-e", action="append", metavar="NAME=VALUE")
        made.add_argument("--timeout-s", type=float, metavar="S", help="end the whole of it after so long")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    logs = commands.of_workspace("logs", runs.logs, "output of an exec; without one, what happened")
    logs.add_argument("exec", nargs="?", metavar="EXEC")
    logs.add_argument("--follow", "-f", action="store_true", help="go on as more comes")
    logs.add_argument("--after", type=int, default=0, metavar="N", help="events after this number only")


def of_files(commands: Commands) -> None:
    cp = commands.add("cp", copies.copy, "copy files: one side is here, the other WORKSPACE:PATH; `-` is a stream")
    cp.add_argument("--recursive", "-r", action="store_true", help="a folder with everything below")
    cp.add_argument("--parents", "-p", action="store_true", help="make missing folders there")
    cp.add_argument("--user", "-u", help="with this guest user's permissions (user)")
    cp.add_argument("source")
    cp.add_argument("target")
    forward = commands.of_workspace("forward", ways.forward, "a local port to one in the workspace")
    forward.add_argument("ports", nargs="+", metavar="[LOCAL:]PORT")
    commands.of_workspace("ports", ways.ports, "what listens in it, and where to see that")


def of_networks(commands: Commands) -> None:
    policy = commands.of_workspace("network", networks.network, "what it may reach; with options, changed live")
    policy.add_argument("--mode", choices=("deny-all", "allow-all", "rules"))
    policy.add_argument("--allow", action="append", metavar="RULE",
                        help="pypi.org, *.example.org:443, 203.0.113.0/24; may be given several times")
    policy.add_argument("--forbid", action="append", metavar="RULE", help="take a rule away")
    policy.add_argument("--ask", action=argparse.BooleanOptionalAction, default=None,
                        help="what no rule names waits for a member's word")
    log = commands.of_workspace("network-log", networks.log, "what it reached and what it was kept from")
    log.add_argument("--refused", action="store_true", help="only that")
    log.add_argument("--all", action="store_true", help="from the beginning, not the newest alone")


def of_pasts(commands: Commands) -> None:
    take = commands.of_workspace("checkpoint", pasts.checkpoint, "take a point to come back to; it goes on")
    take.add_argument("--name")
    take.add_argument("--comment")
    take.add_argument("--no-memory", action="store_true", help="the disk alone")
    commands.of_workspace("checkpoints", pasts.checkpoints, "its points")
    restore = commands.of_workspace("restore", pasts.restore, "go back, in place; what is now is kept first")
    restore.add_argument("checkpoint", metavar="CHECKPOINT")
    restore.add_argument("--no-safety", action="store_true", help="do not keep what is now")
    fork = commands.of_workspace("fork", pasts.fork, "another one of it; it goes on")
    fork.add_argument("name", metavar="NAME")
    fork.add_argument("--checkpoint", metavar="CHECKPOINT")
    fork.add_argument("--count", type=int)
    diff = commands.of_workspace("diff", pasts.diff, "what changed since a point")
    diff.add_argument("checkpoint", metavar="CHECKPOINT")
    diff.add_argument("--against", default="head", metavar="CHECKPOINT")
    for made in (take, restore, fork):
        waits(made, 120)


def of_people(commands: Commands) -> None:
    commands.of_workspace("members", accounts.members, "who is in it")
    waiting = commands.of_workspace("approvals", accounts.approvals, "what waits for a member")
    waiting.add_argument("--all", action="store_true", help="also what was decided")
    for decision in ("approve", "deny"):
        made = commands.of_workspace(decision, accounts.decide, f"{decision} what waits", decision=decision)
        made.add_argument("id", metavar="APPROVAL")
