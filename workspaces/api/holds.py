"""Holds over REST: keep this awake until then. Called by urls; asks selectors, then holds."""

from __future__ import annotations

from typing import ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import holds, selectors
from workspaces.api import shapes
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.idempotency import once
from workspaces.api.schema import IDEMPOTENT
from workspaces.api.serializers import HoldIn, HoldOut
from workspaces.models_policy import Hold

READ, WRITE = "workspaces:read", "workspaces:write"


class HoldList(APIView):
    scopes: ClassVar = {"GET": READ, "POST": WRITE, "DELETE": WRITE}
    audits: ClassVar = {"POST": "hold.add", "DELETE": "hold.remove"}

    @extend_schema(operation_id="holds_list", summary="What holds it awake now, from the API and from inside",
                   responses=HoldOut(many=True))
    def get(self, request: Request, workspace_id: str) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id, metadata=True)
        return Response({"results": [shapes.hold(hold) for hold in holds.active(row.pk, timezone.now())],
                         "next": None})

    @extend_schema(operation_id="holds_create", request=HoldIn, responses={200: HoldOut, 201: HoldOut},
                   parameters=[IDEMPOTENT],
                   summary="Keep it awake until then; the same reason again sets its end anew")
    def post(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="operator", metadata=True)
        form = HoldIn(data=request.data)
        form.is_valid(raise_exception=True)

        def work() -> tuple[int, str, Response]:
            hold, new = holds.add(actor, row, form.validated_data["reason"], form.validated_data["ttl_s"])
            status = 201 if new else 200
            return status, hold.pk, Response(shapes.hold(hold), status=status)

        return once(request, work, lambda pk: shapes.hold(_hold(row.pk, pk)))

    @extend_schema(operation_id="holds_delete_all", summary="Let go of every hold that came through the API",
                   request=None, responses={204: None})
    def delete(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        holds.remove(actor, selectors.workspace_for(actor, workspace_id, needs="operator", metadata=True))
        return Response(status=204)


class HoldDetail(APIView):
    scopes: ClassVar = {"DELETE": WRITE}
    audits: ClassVar = {"DELETE": "hold.remove"}

    @extend_schema(operation_id="holds_delete", summary="Let go of one hold", request=None, responses={204: None})
    def delete(self, request: Request, workspace_id: str, hold_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="operator", metadata=True)
        if not holds.remove(actor, row, hold_id):
            raise Problem("not_found", "There is no such hold; it may have ended.")
        return Response(status=204)


def _hold(workspace_id: str, hold_id: str) -> Hold:
    found = Hold.objects.filter(pk=hold_id, workspace_id=workspace_id).first()
    if found is None:
        raise Problem("not_found", "There is no such hold; it has ended.")
    return found
