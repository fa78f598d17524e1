"""What the command line prints: tables and sentences for people, one JSON document for programs. Called by all.

Results go to standard output, everything else to standard error. With `--json` standard output holds JSON and nothing
else, and an error is a JSON object on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from berth_client.problems import BerthError, Problem

#: code -> what to do about it, where the server's own sentence does not say.
HINTS: dict[str, str] = {
    "unauthenticated": "Run `berth-cli login` with a token that is valid.",
    "token_expired": "Make a new token and run `berth-cli login`.",
    "scope_missing": "This token may not do that; make one with the scope (`berth-cli tokens create`).",
    "forbidden": "Ask the workspace's owner for a role that may.",
    "quota_exceeded": "Stop or delete something, or ask an admin; `berth-cli whoami` shows what is used.",
    "permission_denied": "The guest's user may not; try `--user root`.",
    "not_found": "It is not there, or not yours. `berth-cli list` shows what you can see.",
    "file_not_found": "There is no such path in the workspace.",
    "state_conflict": "`berth-cli show` says in what state it is.",
    "not_running": "Start it first: `berth-cli start`.",
    "workspace_running": "Put it to rest first: `berth-cli standby` or `stop`.",
    "stale_generation": "Somebody changed it meanwhile; look and try again.",
    "busy": "Something else is under way there; try again in a moment.",
    "conflict": "Something else stands in the way; look and try again.",
    "name_taken": "You have one of that name already; choose another.",
    "idempotency_conflict": "The key belongs to another request; use a new one.",
    "file_exists": "Something is there already.",
    "is_a_directory": "It is a folder; for `cp` add `-r`.",
    "not_a_directory": "A part of the path is no folder.",
    "directory_not_empty": "The folder is not empty; remove it with everything below.",
    "precondition_failed": "Somebody else wrote the file meanwhile; read it again.",
    "too_large": "Send less at once; files of any size go through `cp`.",
    "rate_limited": "Too much at once; wait and try again.",
    "agent_lost": "The guest does not answer; `berth-cli restart` if it stays so.",
    "no_capacity": "No host has room now; stop something or try later.",
    "gpu_unavailable": "Every GPU is lent; try later.",
    "host_unreachable": "The host does not answer; an admin can see why with `./berth doctor`.",
    "unavailable": "It is starting or restarting; try again in a moment.",
    "wake_timeout": "It is still waking; try again.",
    "guest_disk_full": "Free space inside the workspace, or enlarge its disk while it is stopped.",
    "disk_full": "The host's disk is full; an admin must free space.",
    "approval_denied": "A member said no.",
    "approval_timeout": "Nobody answered; ask a member and try again.",
    "internal": "This is a fault of the server's; its log says more.",
    "step_failed": "A step on the host failed; its log says more.",
    "preview_not_listening": "Nothing listens on that port in the workspace.",
}
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def note(sentence: str) -> None:
    """For people, beside the result."""
    print(sentence, file=sys.stderr, flush=True)


def document(value: Any) -> None:
    """For programs: the objects as the server sent them."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns as wide as they need; what is not known is a dash."""
    cells = [list(head), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def shown(value: Any) -> str:
    """One cell. A guest's and other people's words reach a terminal here: nothing in them may drive it."""
    if value is None or value == "":
        return "-"
    text = value.isoformat(timespec="seconds") if hasattr(value, "isoformat") else str(value)
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def size(count: int | None) -> str:
    if count is None:
        return "-"
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(SIZES) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {SIZES[unit]}" if unit == 0 else f"{amount:.1f} {SIZES[unit]}"


def failure(error: BerthError, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(described(error), ensure_ascii=False), file=sys.stderr, flush=True)
        return
    note(f"error: {shown(str(error))}")
    if isinstance(error, Problem):
        if hint := HINTS.get(error.code):
            note(f"  {hint}")
        if error.retry_after_s:
            note(f"  Again in {error.retry_after_s:g} s.")


def described(error: BerthError) -> dict[str, Any]:
    if isinstance(error, Problem):
        return {**error.body, "status": error.status, "code": error.code}
    return {"code": "client", "kind": type(error).__name__, "detail": str(error)}
