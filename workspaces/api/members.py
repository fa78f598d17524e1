"""Members of a workspace over REST, and the admin's way in. Called by urls; asks selectors, then members.

Who may see the workspace may see who is in it. Owners change that; anybody may leave; an admin may take somebody out
but lets nobody in, not even themselves: for that there is breaking the glass, which says so.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import members, selectors
from workspaces.actors import Actor
from workspaces.api import shapes
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.idempotency import once
from workspaces.api.schema import IDEMPOTENT
from workspaces.api.serializers_people import BreakGlassIn, MemberIn, MemberOut, MemberPatch
from workspaces.models import User

READ, WRITE = "workspaces:read", "workspaces:write"


class MemberList(APIView):
    scopes: ClassVar = {"GET": READ, "POST": WRITE}
    audits: ClassVar = {"POST": "member.add"}

    @extend_schema(operation_id="members_list", summary="Who is in it, the owner first",
                   responses=MemberOut(many=True))
    def get(self, request: Request, workspace_id: str) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id, metadata=True)
        return Response({"results": [shapes.member(one) for one in members.of(row)], "next": None})

    @extend_schema(operation_id="members_add", summary="Let somebody in", parameters=[IDEMPOTENT], request=MemberIn,
                   responses={201: MemberOut})
    def post(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="owner")
        form = MemberIn(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data

        def work() -> tuple[int, str, Response]:
            note(request, user=wanted["user"], role=wanted["role"])
            made = members.add(actor, row, wanted["user"], wanted["role"])
            return 201, str(made.user_id), Response(shapes.member(made), status=201)

        return once(request, work, lambda pk: _again(actor, workspace_id, int(pk)))


class MemberDetail(APIView):
    scopes: ClassVar = {"PATCH": WRITE, "DELETE": WRITE}
    audits: ClassVar = {"PATCH": "member.change", "DELETE": "member.remove"}

    @extend_schema(operation_id="members_change", summary="Give somebody another role", request=MemberPatch,
                   responses=MemberOut)
    def patch(self, request: Request, workspace_id: str, user: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="owner")
        form = MemberPatch(data=request.data)
        form.is_valid(raise_exception=True)
        note(request, role=form.validated_data["role"])
        return Response(shapes.member(members.change(actor, row, user, form.validated_data["role"])))

    @extend_schema(operation_id="members_remove", summary="Take somebody out, at once; or leave, by one's own name",
                   request=None, responses={204: None})
    def delete(self, request: Request, workspace_id: str, user: str) -> Response:
        actor = actor_of(request)
        leaves = User.objects.get(pk=actor.person).get_username() == user
        row = selectors.workspace_for(actor, workspace_id, needs="viewer" if leaves else "owner", metadata=not leaves)
        members.remove(actor, row, user)
        return Response(status=204)


class BreakGlass(APIView):
    """Not for tokens that a person did not give the scope admin."""

    admin = True
    scopes: ClassVar = {"POST": "admin"}
    audits: ClassVar = {"POST": "member.break_glass"}

    @extend_schema(operation_id="members_break_glass", parameters=[IDEMPOTENT], request=BreakGlassIn,
                   responses={201: MemberOut},
                   summary="An admin's way to contents: for a reason, for a time, seen by the owner and in the audit")
    def post(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, metadata=True)
        form = BreakGlassIn(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        note(request, role=wanted["role"], reason=wanted["reason"], expires_in_s=wanted["expires_in_s"])

        def work() -> tuple[int, str, Response]:
            made = members.break_glass(actor, row, wanted["reason"], wanted["role"], wanted["expires_in_s"])
            return 201, str(made.user_id), Response(shapes.member(made), status=201)

        return once(request, work, lambda pk: _again(actor, workspace_id, int(pk)))


def _again(actor: Actor, workspace_id: str, user_id: int) -> dict[str, Any]:
    row = selectors.workspace_for(actor, workspace_id, metadata=True)
    found = next((one for one in members.of(row) if one.user_id == user_id), None)
    if found is None:
        raise Problem("not_found", "There is no such member any more.")
    return shapes.member(found)
