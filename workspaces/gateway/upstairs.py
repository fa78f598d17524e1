"""The one door from the event loop to Django: selectors and services in small thread pools.

Called by `access`, `wake`, `waiting` and `activity`, never on the hot path (they keep what they got). Reads
and writes have pools of their own, so that a write waiting for the database delays no look-up. Threads keep
their database connection; one that broke (a restarted database) is replaced and the call made once more,
which every selector and service allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import InterfaceError, OperationalError, connections

from workspaces.actors import Actor
from workspaces.api.errors import Problem

if TYPE_CHECKING:
    from workspaces.acts import Act
    from workspaces.gateway.held import Begin
    from workspaces.models import Workspace
    from workspaces.models_people import Approval
    from workspaces.preview_names import PreviewName

LONG_S = 3600.0
T = TypeVar("T")

@dataclass(frozen=True)
class Place:
    """Where a workspace is and in what state, for one actor. All the hot path needs of a row."""

    workspace_id: str
    state: str
    state_reason: str
    generation: int
    role: str
    #: Which acts of a token wait for a member.
    approvals: Mapping[str, Any] = field(default_factory=dict)
    #: An admin's who broke the glass: what they read is in the audit, too.
    glass: bool = False

    @property
    def may_operate(self) -> bool:
        return self.role in ("owner", "operator")


@dataclass(frozen=True)
class Held:
    """An exec that waits for a member, or waited. `code`: why it never began. `record` is what a reader is shown."""

    settled: bool
    code: str
    detail: str
    expires_in_s: float
    record: dict[str, Any]


class Upstairs:
    def __init__(self, readers: int = 4, writers: int = 2) -> None:
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="lookup")
        self._writers = ThreadPoolExecutor(writers, thread_name_prefix="service")

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writers.shutdown(wait=False, cancel_futures=True)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, _with_connection, work)

    async def _write(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writers, _with_connection, work)

    async def actor_from_token(self, secret: str) -> Actor:
        from workspaces import selectors
        return await self._read(lambda: selectors.actor_from_token(secret))

    async def actor_from_session(self, session_key: str) -> Actor:
        from workspaces import selectors

        def work() -> Actor:
            actor = selectors.actor_from_session(session_key)
            if actor is None:
                raise Problem("unauthenticated", "This session has ended.")
            return actor
        return await self._read(work)

    async def place(self, actor: Actor, workspace_id: str) -> Place:
        from workspaces import selectors
        return await self._read(lambda: _place(selectors.workspace_for(actor, workspace_id), actor))

    async def metadata_place(self, actor: Actor, workspace_id: str) -> Place:
        """As `place`, and for an admin everybody's: figures are no contents."""
        from workspaces import selectors
        return await self._read(lambda: _place(selectors.workspace_for(actor, workspace_id, metadata=True), actor))

    async def hold_exec(self, actor: Actor, workspace_id: str, body: dict[str, Any], exec_id: str, pattern: str
                        ) -> None:
        from workspaces import approvals, selectors
        await self._write(lambda: approvals.ask_exec(
            actor, selectors.workspace_for(actor, workspace_id, needs="operator"), body, exec_id, pattern))

    async def held_exec(self, workspace_id: str, exec_id: str) -> Held | None:
        from workspaces import approvals

        def work() -> Held | None:
            found = approvals.of_exec(workspace_id, exec_id)
            return _held(found) if found is not None else None
        return await self._read(work)

    async def held_execs(self, workspace_id: str) -> list[dict[str, Any]]:
        """The records of those that wait now, newest first."""
        from workspaces import approvals
        return await self._read(lambda: [_held(one).record for one in approvals.pending_execs(workspace_id)])

    async def withdraw_exec(self, actor: Actor, workspace_id: str, exec_id: str) -> Held | None:
        from workspaces import approvals

        def work() -> Held | None:
            found = approvals.of_exec(workspace_id, exec_id)
            return _held(approvals.withdraw(actor, found)) if found is not None else None
        return await self._write(work)

    async def execs_to_begin(self) -> list[Begin]:
        from workspaces import approvals
        from workspaces.gateway.held import Begin
        return await self._write(lambda: [
            Begin(asked.pk, asked.exec_id, actor, _place(asked.workspace, actor), dict(asked.request))
            for asked, actor in approvals.to_begin()])

    async def exec_begun(self, approval_id: str, result: dict[str, str]) -> None:
        from workspaces import approvals
        await self._write(lambda: approvals.begun(approval_id, result))

    async def audit(self, acts: Sequence[Act]) -> None:
        from workspaces import audit
        await self._write(lambda: audit.record(*acts))

    async def wake(self, actor: Actor, workspace_id: str, cause: str) -> None:
        from workspaces import selectors, services
        await self._write(lambda: services.wake(selectors.workspace_for(actor, workspace_id), actor, cause))

    async def auto_checkpoint(self, actor: Actor, workspace_id: str) -> str:
        """The id of the checkpoint that is taken before a step, or ""."""
        from workspaces import checkpoints, selectors

        def work() -> str:
            made = checkpoints.auto(selectors.workspace_for(actor, workspace_id), actor)
            return made.pk if made is not None else ""
        return await self._write(work)

    async def is_capturing(self, checkpoint_id: str) -> bool:
        from workspaces import checkpoints
        return await self._read(lambda: checkpoints.is_capturing(checkpoint_id))

    async def preview_by_pass(self, secret: str, name: PreviewName) -> Actor:
        from workspaces import previews
        return await self._read(lambda: previews.by_pass(secret, name))

    async def preview_by_link(self, token: str, name: PreviewName) -> Actor:
        from workspaces import previews
        return await self._read(lambda: previews.by_link(token, name))

    async def preview_by_nothing(self, name: PreviewName) -> Actor:
        from workspaces import previews
        return await self._read(lambda: previews.by_nothing(name))

    async def preview_spend_code(self, code: str, name: PreviewName) -> str:
        from workspaces import previews
        return await self._write(lambda: previews.spend_code(code, name))

    async def preview_spend_link(self, token: str, name: PreviewName) -> str:
        from workspaces import previews
        return await self._write(lambda: previews.spend_link(token, name))

    async def touch(self, workspace_id: str, kind: str) -> None:
        from workspaces import services
        await self._write(lambda: services.touch(workspace_id, kind))


def _place(workspace: Workspace, actor: Actor) -> Place:
    from workspaces import selectors
    membership = None if workspace.owner_id == actor.user_id else selectors.membership_in(actor, workspace)
    role = membership.role if membership is not None else selectors.role_in(actor, workspace)
    return Place(workspace.pk, workspace.state, workspace.state_reason, workspace.generation, role,
                 workspace.approvals, glass=membership is not None and bool(membership.reason))


def _held(asked: Approval) -> Held:
    """The exec as hostd would show it, had it come that far."""
    from workspaces.models_people import ApprovalState

    refused = {ApprovalState.DENIED: "approval_denied", ApprovalState.EXPIRED: "approval_timeout",
               ApprovalState.WITHDRAWN: "killed"}
    code = refused.get(ApprovalState(asked.state), str(asked.result.get("code", "")))
    words = {"approval_denied": f"{asked.decided_by_name} said no.", "approval_timeout": "Nobody decided in time.",
             "killed": f"{asked.decided_by_name} took it back."}
    settled = bool(code) or asked.begun_at is not None
    pending = asked.state == ApprovalState.PENDING
    outcome = {"kind": "killed", "by": asked.decided_by_name} if code == "killed" else {"kind": "refused", "code": code}
    shown = asked.shown
    record = {
        "id": asked.exec_id, "command": shown.get("command"), "user": shown.get("user", "user"),
        "cwd": shown.get("cwd"), "state": "pending_approval" if pending else "ended" if code else "starting",
        "outcome": outcome if code else None, "continued_from": None, "started_at": None,
        "ended_at": _instant(asked.decided_at) if code else None, "duration_ms": None, "stdout": "", "stderr": "",
        "stdout_truncated": False, "stderr_truncated": False,
        "actor": {"type": "token", "name": asked.actor_name}, "approval": asked.pk}
    left_s = (asked.expires_at - datetime.now(UTC)).total_seconds() if pending else LONG_S
    return Held(settled, code, words.get(code, str(asked.result.get("detail", ""))), left_s, record)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _with_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    except (OperationalError, InterfaceError):
        connections.close_all()
        return work()
