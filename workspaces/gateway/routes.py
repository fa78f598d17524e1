"""Which path is whose: the gateway's own routes, what is waited for here, and everything else for Daphne.

Called by `app`. Pure but for the handlers it names. Paths under the gateway's own prefixes never fall through to
Daphne, so that one place alone decides about them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial

from workspaces.api.errors import Problem
from workspaces.gateway import checkpoints, execs, files, filewatches, metrics, networks, terminals, tunnels, waiting
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.mcp import endpoint
from workspaces.gateway.passing import to_daphne
from workspaces.gateway.socket import Socket

Handler = Callable[[Gate, Exchange], Awaitable[None]]
SocketHandler = Callable[[Gate, Exchange, Socket], Awaitable[None]]
Bound = Callable[..., Awaitable[None]]

ID = r"[a-z2-7]{20}"
PREFIX = "/api/v1/workspaces"
OWN = re.compile(rf"\A{PREFIX}/(?P<workspace>[^/]*)/"
                 r"(?P<rest>(?:execs|files|ports(?!/[0-9]+/share\Z)|metrics|network/log|checkpoints/[^/]*/(?:files|diff))(?:/.*)?)\Z",
                 re.DOTALL)
CHANGE = re.compile(rf"\A{PREFIX}(?:/({ID})(?:/(start|stop|standby|restart|undelete|fork|checkpoints"
                    rf"|checkpoints/{ID}/restore))?)?\Z")
#: A path that does not end with its verb.
VERBS = {"checkpoints": "checkpoint"}
SOCKETS: tuple[tuple[re.Pattern[str], Callable[..., Awaitable[None]]], ...] = (
    (re.compile(rf"\A/ws/v1/workspaces/(?P<workspace_id>{ID})/terminals/(?P<exec_id>{ID})\Z"), terminals.serve),
    (re.compile(rf"\A/ws/v1/workspaces/(?P<workspace_id>{ID})/files/watch\Z"), filewatches.serve),
    (re.compile(rf"\A/ws/v1/workspaces/(?P<workspace_id>{ID})/ports/(?P<port>[1-9][0-9]{{0,4}})/tunnel\Z"),
     tunnels.serve),
)
EVENTS = re.compile(rf"\A/ws/v1/(?:events|workspaces/(?P<workspace>{ID})/events)\Z")

#: below /api/v1/workspaces/{id}/ -> method -> handler(gate, exchange, workspace_id, exec_id?)
EXEC_ROUTES: dict[str, dict[str, Bound]] = {
    "": {"GET": execs.one, "DELETE": execs.kill},
    "/output": {"GET": execs.output},
    "/stream": {"GET": execs.stream},
    "/stdin": {"POST": execs.stdin},
    "/signal": {"POST": partial(execs.command, verb="signal")},
    "/resize": {"POST": partial(execs.command, verb="resize")},
    "/recording": {"GET": execs.recording, "PUT": execs.record},
}
ROUTES: dict[str, dict[str, Bound]] = {
    "execs": {"POST": execs.start, "GET": execs.listing},
    "files": {"GET": files.listing, "DELETE": files.remove},
    "files/content": {"GET": files.content, "HEAD": files.content, "PUT": files.put_content},
    "files/mkdir": {"POST": partial(files.change, verb="mkdir")},
    "files/move": {"POST": partial(files.change, verb="move")},
    "files/copy": {"POST": partial(files.change, verb="copy")},
    "files/chmod": {"POST": partial(files.change, verb="chmod")},
    "files/archive": {"GET": files.archive, "PUT": files.put_archive},
    "files/search": {"GET": files.search},
    "ports": {"GET": tunnels.listing},
    "metrics": {"GET": metrics.one},
    "network/log": {"GET": networks.log},
}
#: Whole paths.
ALONE: dict[str, dict[str, Bound]] = {"/api/v1/metrics": {"GET": metrics.several}}
#: below …/checkpoints/{cid}/, where cid may be `head`: the rest of …/checkpoints is rows, and Daphne's
LOOK_ROUTES: dict[str, dict[str, Bound]] = {
    "files": {"GET": checkpoints.listing},
    "files/content": {"GET": checkpoints.content, "HEAD": checkpoints.content},
    "diff": {"GET": checkpoints.diff},
}
LOOK = re.compile(rf"\Acheckpoints/(?P<checkpoint>{ID}|head)/(?P<what>.*)\Z", re.DOTALL)
EXEC = re.compile(rf"\Aexecs/(?P<exec>{ID})(?P<verb>/[a-z]+)?\Z")
WORKSPACE_ID = re.compile(rf"\A{ID}\Z")


def find(exchange: Exchange) -> Handler:
    """Who answers this. Never raises: a refusal is a handler, too, and it lets nobody see more than `not_found`."""
    if exchange.path == "/healthz":
        return health
    if exchange.path == "/mcp":
        return endpoint.serve
    if exchange.path in ALONE:
        return _bound(exchange.method, ALONE[exchange.path])
    own = OWN.match(exchange.path)
    if own is not None:
        return _own(exchange.method, own["workspace"], own["rest"])
    change = CHANGE.match(exchange.path) if exchange.method in ("POST", "DELETE") else None
    verb = _verb(exchange.method, change) if change is not None else None
    if verb is not None:
        return partial(waiting.change, verb=verb)
    return to_daphne


def find_socket(exchange: Exchange) -> SocketHandler | None:
    """Who serves this socket, of those that are the gateway's own."""
    for pattern, serve in SOCKETS:
        if found := pattern.match(exchange.path):
            return partial(serve, **found.groupdict())
    return None


def _own(method: str, workspace_id: str, rest: str) -> Handler:
    methods, given = _methods(rest)
    if not methods or not WORKSPACE_ID.match(workspace_id):
        return partial(refuse, problem=("not_found", "There is nothing here."))
    return _bound(method, methods, workspace_id=workspace_id, **given)


def _bound(method: str, methods: dict[str, Bound], **given: str) -> Handler:
    bound = methods.get(method)
    if bound is None:
        return partial(refuse, problem=("method_not_allowed", f"{method} is not understood here."),
                       allow=", ".join(sorted(methods)))
    return partial(bound, **given)


def _methods(rest: str) -> tuple[dict[str, Bound] | None, dict[str, str]]:
    """Method → handler of a path below a workspace, and the ids in it."""
    if exec_path := EXEC.match(rest):
        return EXEC_ROUTES.get(exec_path["verb"] or ""), {"exec_id": exec_path["exec"]}
    if look := LOOK.match(rest):
        return LOOK_ROUTES.get(look["what"]), {"checkpoint_id": look["checkpoint"]}
    return ROUTES.get(rest), {}


def _verb(method: str, change: re.Match[str]) -> str | None:
    workspace_id, verb = change.group(1), change.group(2)
    if method == "DELETE":
        return "delete" if workspace_id and not verb else None
    if verb is None:
        return None if workspace_id else "create"
    return VERBS.get(verb, verb.rpartition("/")[2])


async def refuse(gate: Gate, exchange: Exchange, problem: tuple[str, str], allow: str | None = None) -> None:
    """Only somebody who is known learns that a path does not exist."""
    await gate.admit(exchange)
    raise Problem(*problem, **({"allow": allow} if allow else {}))


async def health(gate: Gate, exchange: Exchange) -> None:
    """Alive. Whether everything behind is ready, /readyz says."""
    await exchange.json(200, {"status": "ok"})
