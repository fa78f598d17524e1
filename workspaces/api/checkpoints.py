"""Checkpoints, going back to one, and forks over REST. Called by urls; asks selectors, then checkpoints, restores and
forks. Diffs and files of a checkpoint are the gateway's, as all bytes are; so is waiting.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import approvals, checkpoints, forks, restores, selectors
from workspaces.actors import Actor
from workspaces.api import queries, shapes
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.idempotency import Shown, once
from workspaces.api.schema import IDEMPOTENT, LIST, WAIT, query_parameter
from workspaces.api.serializers import (
    CheckpointIn,
    CheckpointOut,
    CheckpointPatch,
    ForkIn,
    ForksOut,
    RestoredOut,
    RestoreIn,
)
from workspaces.ids import LENGTH
from workspaces.models import Checkpoint, CheckpointKind, CheckpointState
from workspaces.models_people import Approval

SCOPE = "checkpoints"
#: What an idempotency key remembers of a restore that waits for a member.
WAITS = "approval:"
FILTERS = [
    query_parameter("kind", str, "Only of this kind", enum=list(CheckpointKind.values)),
    query_parameter("state", str, "Only those in this state", enum=list(CheckpointState.values)),
    query_parameter("name", str, "Only the one with this name"),
]


class CheckpointList(APIView):
    scopes: ClassVar = {"GET": SCOPE, "POST": SCOPE}
    audits: ClassVar = {"POST": "checkpoint.create"}

    @extend_schema(operation_id="checkpoints_list", summary="A workspace's checkpoints, newest first",
                   parameters=[*LIST, *FILTERS], responses=CheckpointOut(many=True))
    def get(self, request: Request, workspace_id: str) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id, metadata=True)
        found = Checkpoint.objects.filter(workspace=row, dropped_at=None)
        for name, words in (("kind", CheckpointKind.values), ("state", CheckpointState.values), ("name", None)):
            said = queries.text(request, name)
            if said is not None and words is not None and said not in words:
                raise queries.refuse(name, f"One of {', '.join(words)}.")
            found = found if said is None else found.filter(**{name: said})
        return Response(queries.page(request, found, lambda rows: [shapes.checkpoint(one) for one in rows]))

    @extend_schema(operation_id="checkpoints_create", summary="Take a checkpoint of now; whatever runs goes on",
                   parameters=[*WAIT, IDEMPOTENT], request=CheckpointIn,
                   responses={200: CheckpointOut, 201: CheckpointOut})
    def post(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        queries.check_wait(request)
        row = selectors.workspace_for(actor, workspace_id, needs="operator", metadata=True)
        form = CheckpointIn(data=request.data or {})
        form.is_valid(raise_exception=True)

        def work() -> tuple[int, str, Response]:
            made = checkpoints.create(actor, row, form.validated_data)
            note(request, checkpoint=made.pk)
            place = {"Location": f"/api/v1/workspaces/{row.pk}/checkpoints/{made.pk}"}
            return 201, made.pk, Response(shapes.checkpoint(made), status=201, headers=place)

        return once(request, work, lambda pk: shapes.checkpoint(_found(actor, workspace_id, pk)))


class CheckpointDetail(APIView):
    scopes: ClassVar = {"GET": SCOPE, "PATCH": SCOPE, "DELETE": SCOPE}
    audits: ClassVar = {"PATCH": "checkpoint.change", "DELETE": "checkpoint.delete"}

    @extend_schema(operation_id="checkpoints_get", summary="One checkpoint", responses=CheckpointOut)
    def get(self, request: Request, workspace_id: str, checkpoint_id: str) -> Response:
        return Response(shapes.checkpoint(_found(actor_of(request), workspace_id, checkpoint_id)))

    @extend_schema(operation_id="checkpoints_change", summary="Change its name, comment or expiry",
                   request=CheckpointPatch, responses=CheckpointOut)
    def patch(self, request: Request, workspace_id: str, checkpoint_id: str) -> Response:
        actor = actor_of(request)
        found = _found(actor, workspace_id, checkpoint_id, needs="operator")
        form = CheckpointPatch(data=request.data or {})
        form.is_valid(raise_exception=True)
        return Response(shapes.checkpoint(checkpoints.patch(actor, found, form.validated_data)))

    @extend_schema(operation_id="checkpoints_delete", summary="Forget it; never refused because something needs it",
                   responses={204: None})
    def delete(self, request: Request, workspace_id: str, checkpoint_id: str) -> Response:
        actor = actor_of(request)
        checkpoints.delete(actor, _found(actor, workspace_id, checkpoint_id, needs="operator"))
        return Response(status=204)


class Restore(APIView):
    scopes: ClassVar = {"POST": SCOPE}
    audits: ClassVar = {"POST": "checkpoint.restore"}

    @extend_schema(operation_id="checkpoints_restore", summary="Go back to it, in place; what is now is kept first",
                   parameters=[*WAIT, IDEMPOTENT], request=RestoreIn,
                   responses={200: RestoredOut, 202: RestoredOut})
    def post(self, request: Request, workspace_id: str, checkpoint_id: str) -> Response:
        actor = actor_of(request)
        queries.check_wait(request)
        found = _found(actor, workspace_id, checkpoint_id, needs="operator")
        form = RestoreIn(data=request.data or {})
        form.is_valid(raise_exception=True)

        safe = form.validated_data.get("safety", True)

        def work() -> tuple[int, str, Shown]:
            if approvals.waits(actor, found.workspace, "restore"):
                asked = approvals.ask(actor, found.workspace, "restore", {"checkpoint": found.pk, "safety": safe},
                                      shown={"checkpoint": found.pk, "name": found.name, "safety": safe})
                note(request, approval=asked.pk)
                shown = _waits(actor, asked, request)
                return 202, f"{WAITS}{asked.pk}", Response(shown, status=202)
            row, safety = restores.restore(actor, found, safety=safe)
            return 202, row.pk + safety, lambda: Response(
                {**shapes.workspace(row, actor, request), "safety_checkpoint": safety or None}, status=202)

        return once(request, work, lambda ids: _restored_again(actor, ids, request))


class Fork(APIView):
    scopes: ClassVar = {"POST": "workspaces:write"}
    audits: ClassVar = {"POST": "workspace.fork"}

    @extend_schema(operation_id="workspaces_fork", summary="Make others of it, of now or of a checkpoint; it goes on",
                   parameters=[*WAIT, IDEMPOTENT], request=ForkIn,
                   responses={200: ForksOut, 201: ForksOut})
    def post(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        queries.check_wait(request)
        # Not as metadata: what is in it goes to who asks.
        row = selectors.workspace_for(actor, workspace_id, needs="operator")
        if actor.workspace_ids is not None:
            raise Problem("scope_missing", "This token is limited to named workspaces.")
        form = ForkIn(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        origin = _found(actor, workspace_id, wanted["checkpoint"]) if wanted.get("checkpoint") else None

        def work() -> tuple[int, str, Response]:
            made = forks.fork(actor, row, wanted["name"], wanted.get("count", 1), origin)
            return 201, made[0].pk, Response({"results": shapes.workspaces(made, actor, request)}, status=201)

        return once(request, work, lambda pk: {"results": shapes.workspaces(forks.batch_of(pk), actor, request)})


def _found(actor: Actor, workspace_id: str, checkpoint_id: str, needs: str = "viewer") -> Checkpoint:
    return selectors.checkpoint_for(actor, checkpoint_id, workspace_id=workspace_id, needs=needs, metadata=True)


def _waits(actor: Actor, asked: Approval, request: Request) -> dict[str, Any]:
    row = selectors.workspace_for(actor, asked.workspace_id, metadata=True)
    return {**shapes.workspace(row, actor, request), "safety_checkpoint": asked.result.get("safety_checkpoint"),
            "approval": shapes.approval(approvals.expired_if_late(asked))}


def _restored_again(actor: Actor, ids: str, request: Request) -> dict[str, Any]:
    if ids.startswith(WAITS):
        return _waits(actor, Approval.objects.get(pk=ids.removeprefix(WAITS)), request)
    row = selectors.workspace_for(actor, ids[:LENGTH], metadata=True)
    return {**shapes.workspace(row, actor, request), "safety_checkpoint": ids[LENGTH:] or None}
