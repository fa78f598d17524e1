"""Workspaces and their events over REST. Called by urls; asks selectors, then services; shows rows with `shapes`.

Each view: who (auth) → which row, and may they (selectors) → is the body sound (serializers) → do it (services).
Waiting is the gateway's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from sandboxes import machines
from sandboxes.egress import DENY_ALL
from workspaces import approvals, events, forks, selectors, services
from workspaces.actors import Actor
from workspaces.api import listing, queries, shapes
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.idempotency import Shown, once
from workspaces.api.schema import IDEMPOTENT, LIST, PURGE, WAIT, WORKSPACE_FILTERS, query_parameter
from workspaces.api.serializers import DeletedOut, Empty, EventOut, WorkspaceCreate, WorkspaceOut, WorkspacePatch
from workspaces.models import Checkpoint, Event, Workspace
from workspaces.state import Answer

READ, WRITE = "workspaces:read", "workspaces:write"
REACHED = {"start": "running", "restart": None, "stop": "stopped", "standby": "standby", "undelete": None,
           "delete": "deleted"}
Deed = Callable[[Actor, Workspace], tuple[Workspace, Answer]]


class WorkspaceList(APIView):
    scopes: ClassVar = {"GET": READ, "POST": WRITE}
    audits: ClassVar = {"POST": "workspace.create"}

    @extend_schema(operation_id="workspaces_list", summary="Every workspace one may see",
                   parameters=[*LIST, *WORKSPACE_FILTERS, *listing.PARAMETERS], responses=WorkspaceOut(many=True))
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        rows, order = listing.asked_for(request, actor)
        return Response(queries.page(request, rows, lambda found: shapes.workspaces(found, actor, request), order))

    @extend_schema(operation_id="workspaces_create", summary="Make a workspace; it starts at once",
                   parameters=[*WAIT, IDEMPOTENT], request=WorkspaceCreate, responses={200: WorkspaceOut,
                                                                                       201: WorkspaceOut})
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        queries.check_wait(request)
        if actor.workspace_ids is not None:
            raise Problem("scope_missing", "This token is limited to named workspaces.")
        form = WorkspaceCreate(data=request.data)
        form.is_valid(raise_exception=True)
        fields = _creation(actor, form.validated_data)

        def work() -> tuple[int, str, Response]:
            row = services.create(actor, fields)
            note(request, target=f"workspace:{row.pk}")
            shown = shapes.workspace(row, actor, request)
            return 201, row.pk, Response(shown, status=201, headers={"Location": f"/api/v1/workspaces/{row.pk}"})

        return once(request, work, lambda pk: _show_again(request, pk))


class WorkspaceDetail(APIView):
    scopes: ClassVar = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    audits: ClassVar = {"PATCH": "workspace.change", "DELETE": "workspace.delete"}

    @extend_schema(operation_id="workspaces_get", summary="One workspace", responses=WorkspaceOut)
    def get(self, request: Request, workspace_id: str) -> Response:
        return Response(_show_again(request, workspace_id))

    @extend_schema(operation_id="workspaces_change", summary="Change what it is", request=WorkspacePatch,
                   responses=WorkspaceOut)
    def patch(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="owner", metadata=True)
        form = WorkspacePatch(data=request.data)
        form.is_valid(raise_exception=True)
        _check_gpu(form.validated_data)
        _check_approvals(actor, form.validated_data)
        _check_network(actor, form.validated_data, row.network)
        note(request, fields=sorted(form.validated_data))
        row = services.patch(actor, row, form.validated_data)
        return Response(shapes.workspace(row, actor, request))

    @extend_schema(operation_id="workspaces_delete", summary="Into the trash; its name is free at once",
                   parameters=[PURGE, *WAIT], responses={200: DeletedOut, 202: DeletedOut})
    def delete(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        queries.check_wait(request)
        purge = queries.flag(request, "purge")
        row = selectors.workspace_for(actor, workspace_id, needs="owner", metadata=True)
        if approvals.waits(actor, row, "delete") and row.intent != "deleted":
            asked = approvals.ask(actor, row, "delete", {"purge": purge})
            note(request, approval=asked.pk)
            shown = {**shapes.workspace(row, actor, request), "approval": shapes.approval(asked)}
            return Response(shown, status=202)
        row, _ = services.delete(actor, row, purge=purge)
        return Response(shapes.workspace(row, actor, request), status=202)


class Command(APIView):
    """POST …/{verb}: 200 when it is already so, 202 when accepted, 409 with a reason when refused."""

    scopes: ClassVar = {"POST": WRITE}
    verb: str
    deed: Deed
    needs = "operator"

    def post(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        queries.check_wait(request)
        row = selectors.workspace_for(actor, workspace_id, needs=self.needs, metadata=True)
        Empty(data=request.data or {}).is_valid(raise_exception=True)

        def work() -> tuple[int, str, Shown]:
            changed, answer = type(self).deed(actor, row)
            there = answer is Answer.ALREADY and REACHED[self.verb] in (None, changed.state)
            status = 200 if there else 202
            return status, changed.pk, lambda: Response(shapes.workspace(changed, actor, request), status=status)

        return once(request, work, lambda pk: _show_again(request, pk))


def command(verb: str, deed: Deed, summary: str, needs: str = "operator") -> Any:
    """The view class of one verb, with its own place in the schema."""
    made = type(f"{verb.title()}View", (Command,), {"verb": verb, "deed": staticmethod(deed), "needs": needs,
                                                    "audits": {"POST": f"workspace.{verb}"}})
    described = extend_schema(operation_id=f"workspaces_{verb}", summary=summary, parameters=[*WAIT, IDEMPOTENT],
                              request=Empty, responses={200: WorkspaceOut, 202: WorkspaceOut})
    return extend_schema_view(post=described)(made)


Start = command("start", services.start, "Let it run")
Stop = command("stop", services.stop, "Let it stop; its disk stays")
Standby = command("standby", services.standby, "To rest with its memory; any first call wakes it")
Restart = command("restart", services.restart, "A new body over the same disk")
Undelete = command("undelete", services.undelete, "Out of the trash, asleep as it lay there", needs="owner")


class EventList(APIView):
    scopes: ClassVar = {"GET": READ}

    @extend_schema(operation_id="workspaces_events", summary="What happened, oldest first, without gaps",
                   parameters=[query_parameter("after", int, "Events with a higher number only"),
                               query_parameter("before", int, "The newest with a smaller number; `next` goes back"),
                               LIST[0]],
                   responses=EventOut(many=True))
    def get(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, metadata=True)
        is_member = selectors.workspaces_of(actor).filter(pk=row.pk).exists()
        found, more = _events_page(request, row)
        return Response({"results": [events.to_json(event, content=is_member) for event in found], "next": more})


def _events_page(request: Request, row: Workspace) -> tuple[list[Event], str | None]:
    """Forward from `after`, or back from `before`; both ways the oldest of a page comes first."""
    after = queries.whole(request, "after", 0, 0, 2**63 - 1)
    back = queries.whole(request, "before", 0, 0, 2**63 - 1)
    limit = queries.whole(request, "limit", queries.DEFAULT_LIMIT, 1, queries.MAX_LIMIT)
    if not back:
        found = events.since(row, after, limit + 1)
        shown = found[:limit]
        return shown, queries.next_url(request, after=shown[-1].seq) if len(found) > limit else None
    if "after" in request.GET:
        raise queries.refuse("before", "Either `after` or `before`.")
    found = events.before(row, back, limit + 1)
    shown = found[-limit:]
    return shown, queries.next_url(request, before=shown[0].seq) if len(found) > limit else None


def _show_again(request: Request, workspace_id: str) -> dict[str, Any]:
    actor = actor_of(request)
    return shapes.workspace(selectors.workspace_for(actor, workspace_id, metadata=True), actor, request)


def _creation(actor: Actor, fields: dict[str, Any]) -> dict[str, Any]:
    origin = fields.pop("from_checkpoint", None)
    _check_gpu(fields)
    _check_network(actor, fields, DENY_ALL)
    if origin is not None:
        _check_approvals(actor, fields)  # a copy is not a way around what its source holds back
        found = _origin(actor, origin)
        fields.setdefault("approvals", found.workspace.approvals)
        return {**fields, **forks.began_from(found, fields)}
    image = fields.get("image", "default")
    if image not in machines.images():
        raise Problem("invalid", "Some fields are not valid.", errors={"image": [f"No host has the image {image!r}."]})
    return fields


def _origin(actor: Actor, checkpoint_id: str) -> Checkpoint:
    """Contents go into somebody's own workspace, so a membership is needed and being an admin is not enough."""
    try:
        return selectors.checkpoint_for(actor, checkpoint_id, needs="operator")
    except Problem as problem:
        raise Problem("invalid", "Some fields are not valid.",
                      errors={"from_checkpoint": ["There is no such checkpoint."]}) from problem


def _check_gpu(fields: dict[str, Any]) -> None:
    if fields.get("gpu") is not None:
        raise Problem("invalid", "Some fields are not valid.", errors={"gpu": ["No host has a GPU to lend."]})


def _check_network(actor: Actor, fields: dict[str, Any], before: dict[str, Any]) -> None:
    if fields.get("network", before) != before and not actor.may("network"):
        raise Problem("scope_missing", "Changing what it may reach needs the scope network.", scope="network")


def _check_approvals(actor: Actor, fields: dict[str, Any]) -> None:
    """What holds a token's acts back is not that token's to change."""
    if "approvals" in fields and not actor.may("approvals"):
        raise Problem("scope_missing", "Changing approvals needs the scope approvals.", scope="approvals")
