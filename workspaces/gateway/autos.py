"""A checkpoint just before a program's step that follows a quiet time, so that there is a point to go back to.

Called by `execs` before a new exec of a token; asks upstairs whether one is to be taken, and waits for its moment, so
that it is before the step. A busy workspace costs a dictionary's look; a step is never refused because of this.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from django.conf import settings

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.nudges import Nudges, pause
from workspaces.gateway.upstairs import Place, Upstairs

log = logging.getLogger("berth.gateway.autos")

LOOK_EVERY_S = 0.5
#: A capture that takes longer is not waited for; the step goes on.
LONGEST_S = 15.0
STATES = frozenset({"running", "standby", "stopped"})
MOST_REMEMBERED = 10_000


class Autos:
    def __init__(self, upstairs: Upstairs, nudges: Nudges, clock: Callable[[], float] = time.monotonic) -> None:
        self._upstairs, self._nudges, self._clock = upstairs, nudges, clock
        self._stepped_at: dict[str, float] = {}
        self._taking: dict[str, asyncio.Task[None]] = {}

    async def before(self, actor: Actor, place: Place) -> bool:
        """Returns when the step may begin: False at once, True after asking. Steps that come while a checkpoint is
        taken join it."""
        if actor.type != "token" or place.state not in STATES:
            return False
        workspace_id = place.workspace_id
        task = self._taking.get(workspace_id)
        if task is None:
            if not self._was_quiet(workspace_id):
                return False
            task = asyncio.get_running_loop().create_task(self._take(actor, workspace_id))
            self._taking[workspace_id] = task
            task.add_done_callback(lambda _done: self._taking.pop(workspace_id, None))
        await asyncio.shield(task)
        return True

    def _was_quiet(self, workspace_id: str) -> bool:
        now = self._clock()
        before = self._stepped_at.pop(workspace_id, None)
        self._stepped_at[workspace_id] = now  # the newest is last
        if len(self._stepped_at) > MOST_REMEMBERED:
            del self._stepped_at[next(iter(self._stepped_at))]
        return before is None or now - before >= settings.AUTO_CHECKPOINT_QUIET_S

    async def _take(self, actor: Actor, workspace_id: str) -> None:
        try:
            async with asyncio.timeout(LONGEST_S):
                with self._nudges.about(workspace_id) as changed:
                    checkpoint_id = await self._upstairs.auto_checkpoint(actor, workspace_id)
                    while checkpoint_id and await self._upstairs.is_capturing(checkpoint_id):
                        await pause(changed, LOOK_EVERY_S)
        except TimeoutError:
            log.warning("the checkpoint before a step of %s takes too long", workspace_id)
        except Problem as problem:
            log.info("no checkpoint before a step of %s: %s", workspace_id, problem.code)
        except Exception as error:  # nobody asked for it, so it fails nobody
            log.warning("no checkpoint before a step of %s: %s", workspace_id, type(error).__name__)
