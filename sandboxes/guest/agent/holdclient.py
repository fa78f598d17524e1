"""`berth-hold`: asks the guest's agent that the machine not be put to rest. Run by people and scripts in the guest.

    berth-hold --reason "nightly build" --ttl 7200            holds for two hours, prints the hold's id
    berth-hold --reason "nightly build" -- make all           holds for as long as the command runs; its exit is ours
    berth-hold --release ID      berth-hold --list

Talks to `holds.py` over a Unix socket. Exit 0: done; 1: refused; 2: misused or no agent; with a command: the command's.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

SOCKET = "/run/berth-hold/socket"
USAGE = "usage: berth-hold --reason TEXT [--ttl SECONDS] [-- COMMAND…] | --release ID | --list"


def main(argv: list[str]) -> int:
    command: list[str] = []
    if "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1:]
    asked = _asked(argv, bool(command))
    if asked is None:
        print(USAGE, file=sys.stderr)
        return 2
    with socket.socket(socket.AF_UNIX) as conn:
        try:
            conn.connect(os.environ.get("BERTH_HOLD_SOCKET", SOCKET))
            said = _ask(conn, asked)
        except (OSError, ValueError) as error:
            print(f"berth-hold: the agent does not answer: {error}", file=sys.stderr)
            return 2
        if "error" in said:
            print(f"berth-hold: {said['error']}", file=sys.stderr)
            return 1
        return _run(command) if command else _show(said)


def _asked(argv: list[str], attached: bool) -> dict[str, Any] | None:
    options: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        if word == "--list":
            options["list"] = "yes"
            continue
        name, equals, value = word.partition("=")
        if name not in ("--reason", "--ttl", "--release"):
            return None
        given = value if equals else next(words, None)
        if given is None:
            return None
        options[name.removeprefix("--")] = given
    return _request(options, attached)


def _request(options: dict[str, str], attached: bool) -> dict[str, Any] | None:
    if "list" in options:
        return {"list": True}
    if "release" in options:
        return {"release": options["release"]}
    try:
        ttl_s = float(options.get("ttl", 7 * 86_400 if attached else 3600))
    except ValueError:
        return None
    return {"hold": options["reason"], "ttl_s": ttl_s, "attached": attached} if "reason" in options else None


def _ask(conn: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
    conn.sendall(json.dumps(asked).encode() + b"\n")
    line = b""
    while not line.endswith(b"\n") and (data := conn.recv(65536)):
        line += data
    answer = json.loads(line)
    return answer if isinstance(answer, dict) else {}


def _show(said: dict[str, Any]) -> int:
    for hold in said.get("holds", []):
        print(hold["id"], f"{hold['expires_at']:.0f}", hold["reason"], sep="\t")
    if "id" in said:
        print(said["id"])
    return 0


def _run(command: list[str]) -> int:
    """The connection stays open meanwhile: whatever ends us ends the hold."""
    try:
        pid = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        print(f"berth-hold: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    while True:
        try:
            _, status = os.waitpid(pid, 0)
            break
        except KeyboardInterrupt:
            continue
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
