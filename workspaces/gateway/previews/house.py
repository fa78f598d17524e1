"""What is answered on a preview's own name by Berth and not by the program: all below `/.berth/`, and refusals.

    /.berth/enter?code=…&path=…    the hop's other half: a code becomes a pass, in a cookie of this origin alone
    /.berth/arrive?path=…          whether the browser kept it; so a hop is made once and never in circles
    /.berth/wait?path=…&n=…        a page that waits: looks whether it is time, wakes nothing and keeps nothing awake

Called by `front`; calls `entry` and upstairs. Every answer from here carries `Berth-Error` or comes from `/.berth/`.
"""

from __future__ import annotations

import json
from urllib.parse import quote

from workspaces.api.errors import Problem
from workspaces.gateway.exchange import SAFE, Exchange, problem_headers
from workspaces.gateway.execs import as_actor
from workspaces.gateway.gate import Gate
from workspaces.gateway.hostd import Call, done_with
from workspaces.gateway.previews import entry
from workspaces.gateway.previews.entry import Visit
from workspaces.gateway.previews.reach import said
from workspaces.gateway.previews.rewriting import Outside
from workspaces.gateway.wake import BY_ITSELF
from workspaces.preview_page import POLICY, page

PREFIX = "/.berth/"
#: A page that waits looks so often, and so many times before it asks a person to.
LOOK_EVERY_S, MOST_LOOKS = 2, 300
LONGEST_PATH = 4096
PASS_S = 12 * 3600
WAITS = frozenset({"workspace_waking", "preview_not_listening"})
PRINTABLE = "%/?:@!$&'()*+,;=-._~[]{}|^`<>\\\"#"


async def answer(gate: Gate, exchange: Exchange, outside: Outside) -> None:
    what = exchange.path.removeprefix(PREFIX)
    if exchange.method not in ("GET", "HEAD") or what not in ("enter", "arrive", "wait"):
        raise Problem("not_found", "Berth answers nothing here.")
    if what == "enter":
        await _enter(gate, exchange, outside)
    elif what == "arrive":
        await _arrive(gate, exchange, outside)
    else:
        await _wait(gate, exchange, outside)


async def _enter(gate: Gate, exchange: Exchange, outside: Outside) -> None:
    secret = await gate.upstairs.preview_spend_code(exchange.query.get("code", ""), outside.name)
    framed = exchange.header(b"sec-fetch-dest") in ("iframe", "frame")
    await lead(exchange, f"{PREFIX}arrive?path={quote(path_of(exchange), safe='')}", [cookie(secret, outside, framed)])


async def _arrive(gate: Gate, exchange: Exchange, outside: Outside) -> None:
    try:
        by = (await entry.enter(gate, exchange, outside)).by
    except Problem as problem:
        if problem.code != "preview_forbidden":
            raise
        by = ""
    if by != "pass":
        raise Problem("preview_forbidden", "Your browser does not keep this page's cookie.", reason="no_cookie")
    await lead(exchange, path_of(exchange))


async def by_link(gate: Gate, exchange: Exchange, outside: Outside) -> None:
    """A person came by a share's link: its secret leaves the address bar at once."""
    secret = await gate.upstairs.preview_spend_link(entry.link_of(exchange), outside.name)
    framed = exchange.header(b"sec-fetch-dest") in ("iframe", "frame")
    await lead(exchange, local(entry.target_of(exchange)), [cookie(secret, outside, framed)])


async def _wait(gate: Gate, exchange: Exchange, outside: Outside) -> None:
    visit = await entry.enter(gate, exchange, outside)
    state = visit.place.state
    if state == "running":
        if await _listens(gate, visit, outside.name.port):
            await lead(exchange, path_of(exchange))
            return
        raise Problem("preview_not_listening", f"Nothing listens on port {outside.name.port} in the workspace.")
    if state in BY_ITSELF:
        raise Problem("workspace_waking", "It is on its way.", retry_after_s=LOOK_EVERY_S)
    raise Problem("workspace_stopped", f"It is {state} again; opening the address wakes it.", reason=state)


async def _listens(gate: Gate, visit: Visit, port: int) -> bool:
    """By the list of ports, which is no use of the workspace."""
    call = Call("GET", f"{visit.place.workspace_id}/ports", "", as_actor(visit.actor, visit.place), repeatable=True)
    try:
        response = await gate.hostd.send(call)
    except Problem as problem:
        raise said(problem) from None
    try:
        found = json.loads(await response.read())["results"]
    finally:
        done_with(response)
    return any(each["port"] == port and each["reachable"] for each in found)


async def lead(exchange: Exchange, target: str, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"location", target.encode("latin-1")), (b"content-length", b"0"), (b"cache-control", b"no-store"),
               (b"referrer-policy", b"no-referrer"), *(extra or [])]
    await exchange.begin(303, headers)
    await exchange.write(b"", more=False)


def cookie(secret: str, outside: Outside, framed: bool) -> tuple[bytes, bytes]:
    """Host-only. In a frame of the app's a browser keeps it only so, apart for each site that frames."""
    secure = outside.scheme == "https"
    site = "; SameSite=None; Secure; Partitioned" if framed else "; SameSite=Lax" + ("; Secure" if secure else "")
    return b"set-cookie", f"{entry.cookie_name()}={secret}; Path=/; Max-Age={PASS_S}; HttpOnly{site}".encode()


def path_of(exchange: Exchange) -> str:
    return local(exchange.query.get("path", "/"))


def local(path: str) -> str:
    """A target on this very origin, as it was spelled; never one that a browser reads as another host."""
    path = quote(path, safe=PRINTABLE)
    if not path.startswith("/"):
        return "/"
    return "/." + path if path[1:2] in ("/", "\\") else path


# -- refusals ----------------------------------------------------------------------------------------------------------


async def refuse(gate: Gate, exchange: Exchange, outside: Outside | None, problem: Problem, *, person: bool) -> None:
    """A page for a person, problem+json for a program; both say whose word it is."""
    exchange.refusal = problem.code
    marker = [(b"berth-error", problem.code.encode()), *problem_headers(problem)]
    if not person or outside is None:
        await exchange.problem(problem, marker)
        return
    hop = hop_of(gate, exchange, outside, problem)
    if hop:
        await lead(exchange, hop, marker)
        return
    again, link = _again(exchange, problem)
    html = page(problem, again=again, every_s=LOOK_EVERY_S, link=link).encode()
    await exchange.begin(problem.status, [
        (b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"%d" % len(html)), *SAFE,
        (b"content-security-policy", POLICY.encode()), *marker])
    await exchange.write(html, more=False)


def hop_of(gate: Gate, exchange: Exchange, outside: Outside, problem: Problem) -> str:
    """Where a browser without a pass is sent to get one, or ""."""
    arriving = exchange.path.startswith(PREFIX + "arrive")
    if problem.code != "preview_forbidden" or problem.extra.get("reason") or arriving:
        return ""
    app = gate.config.app_origin(outside.scheme, outside.host)
    if not app or exchange.method not in ("GET", "HEAD"):
        return ""
    target = path_of(exchange) if exchange.path.startswith(PREFIX) else entry.target_of(exchange)
    path = target if len(target) <= LONGEST_PATH else "/"
    return f"{app}/previews/sign-in?to={outside.name.label}&path={quote(path, safe='')}"


def _again(exchange: Exchange, problem: Problem) -> tuple[str, str]:
    """(where the page looks by itself, what a person may press)."""
    waits = exchange.path == PREFIX + "wait"
    target = path_of(exchange) if waits else local(entry.target_of(exchange))
    if problem.code not in WAITS:
        return "", target if problem.code != "preview_forbidden" else ""
    said_n = exchange.query.get("n", "0") if waits else "0"
    looks = int(said_n) if said_n.isascii() and said_n.isdigit() and len(said_n) < 6 else MOST_LOOKS
    if looks >= MOST_LOOKS or len(target) > LONGEST_PATH:
        return "", target
    return f"{PREFIX}wait?path={quote(target, safe='')}&n={looks + 1}", target
