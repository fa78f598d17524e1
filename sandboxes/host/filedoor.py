"""What every HTTP call about a guest's files shares: which path, which user, the way to the agent, the fact afterwards.

Called by `files`, `archives` and `filewatch`; knows no call by name.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from sandboxes.errors import Invalid
from sandboxes.guest.link import GuestLink
from sandboxes.host import fields, filenames, http
from sandboxes.host.machines import Machines

LINK_S = 5.0


class Door:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    async def link(self, request: web.Request, *, work: bool = True) -> GuestLink:
        """To the agent of the machine in the path. `work`: it counts as use of the workspace."""
        machine_id = request.match_info["mid"]
        body = self._machines.running_body(machine_id)
        if work:
            self._machines.worked(machine_id)
        return await body.soon(LINK_S)

    def tell(self, request: web.Request, kind: str, data: dict[str, Any]) -> None:
        machine = self._machines.registry.find(request.match_info["mid"])
        self._machines.tell(machine, kind, http.actor_of(request), data)


def named(request: web.Request) -> tuple[http.Query, bytes, str]:
    """(the query, the path in it, the guest's user in it)."""
    query = http.Query(request)
    return query, filenames.checked(query.raw("path")), user_of(query)


def user_of(query: http.Query) -> str:
    user = query.text("user", "user") or ""
    try:
        return str(fields.text(64)(user))
    except fields.Wrong as error:
        raise Invalid(f"user: {error}", errors={"user": str(error)}) from error


def shown(path: bytes) -> str:
    return path.decode(errors="replace")
