"""The two events sockets: everything one may see, and one workspace in full.

Called by Channels through `routing`; calls selectors, events and the API's own rendering of a workspace, so that
a socket never shows a thing otherwise than REST does.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async

from workspaces import events, selectors
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.live.feed import Feed
from workspaces.live.shown import Shown, marked, shown_to

BATCH = 200


class WorkspaceEvents(Feed):
    """`/ws/v1/workspaces/{id}/events?after=N`: events as JSON, in order and without a gap, from N on."""

    async def prepare(self, actor: Actor) -> None:
        self.workspace_id: str = self.scope["url_route"]["kwargs"]["workspace_id"]
        said = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("after", ["0"])[0]
        if not said.isdigit() or len(said) > 15:
            raise Problem("invalid", "after is a whole number.", errors={"after": ["A whole number."]})
        self.after = int(said)
        await database_sync_to_async(selectors.workspace_for)(actor, self.workspace_id)

    def groups_of(self, actor: Actor) -> list[str]:
        return [f"workspace.{self.workspace_id}"]

    async def look(self, actor: Actor) -> bool:
        batch = await database_sync_to_async(self._batch)(actor)
        for event in batch:
            await self.say(event)
            self.after = event["seq"]
        return len(batch) == BATCH

    def _batch(self, actor: Actor) -> list[dict[str, Any]]:
        workspace = selectors.workspace_for(actor, self.workspace_id)
        return [events.to_json(event) for event in events.since(workspace, self.after, BATCH)]


class AllEvents(Feed):
    """`/ws/v1/events`: `hello`, then every workspace one may see as it is, then each again when it changes.

    `{"type":"hello"}` `{"type":"workspace","workspace":{…}}` `{"type":"gone","id":…}`. Nothing is replayed: what
    a client missed is contained in what it gets when it comes again. With `?snapshot=false` only changes are sent, from
    `hello` on: for who reads the list in pages and does not want thousands of rows at once.
    """

    async def prepare(self, actor: Actor) -> None:
        self.sent: dict[str, Shown] = {}
        self.greeted = False
        said = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("snapshot", ["true"])[0]
        if said not in ("true", "false"):
            raise Problem("invalid", "snapshot is true or false.", errors={"snapshot": ["true or false."]})
        self.snapshot = said == "true"

    def groups_of(self, actor: Actor) -> list[str]:
        return [f"user.{actor.user_id}"]

    async def look(self, actor: Actor) -> bool:
        if not self.greeted:
            self.greeted = True
            if not self.snapshot:
                self.sent = await database_sync_to_async(marked)(actor)
            await self.say({"type": "hello"})
        now = await database_sync_to_async(shown_to)(actor, dict(self.sent), self.credentials.host)
        for workspace_id in [known for known in self.sent if known not in now]:
            del self.sent[workspace_id]
            await self.say({"type": "gone", "id": workspace_id})
        for workspace_id, shown in now.items():
            if self.sent.get(workspace_id) is not shown:
                self.sent[workspace_id] = shown
                await self.say({"type": "workspace", "workspace": shown.value})
        return False
