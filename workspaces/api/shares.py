"""Ports let out, over REST. Called by urls; asks selectors, then previews. Whoever may run a command may let a port
out: they could carry out by themselves what it shows.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import previews, selectors
from workspaces.api import shapes
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.idempotency import once
from workspaces.api.schema import IDEMPOTENT
from workspaces.api.serializers_previews import ShareIn, ShareOut
from workspaces.models_previews import PreviewShare

SCOPE = "previews"


class ShareList(APIView):
    scopes: ClassVar = {"GET": SCOPE}

    @extend_schema(operation_id="shares_list", summary="Which ports are shared now", responses=ShareOut(many=True))
    def get(self, request: Request, workspace_id: str) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id)
        return Response({"results": [shown(request, one) for one in previews.shares_of(row)], "next": None})


class PortShare(APIView):
    scopes: ClassVar = {"GET": SCOPE, "POST": SCOPE, "DELETE": SCOPE}
    audits: ClassVar = {"POST": "preview.share", "DELETE": "preview.unshare"}

    @extend_schema(operation_id="shares_get", summary="How a port is shared", responses=ShareOut)
    def get(self, request: Request, workspace_id: str, port: int) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id)
        return Response(shown(request, _of(row.pk, _port(port))))

    @extend_schema(operation_id="shares_create", request=ShareIn, responses={200: ShareOut, 201: ShareOut},
                   parameters=[IDEMPOTENT], summary="Share a port; in place of its former share, if there is one")
    def post(self, request: Request, workspace_id: str, port: int) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="operator")
        _port(port)
        form = ShareIn(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data

        def work() -> tuple[int, str, Response]:
            note(request, port=port, visibility=wanted["visibility"])
            made, token, new = previews.share(actor, row, port, wanted["visibility"], wanted.get("expires_in_s"))
            status = 201 if new else 200
            return status, made.pk, Response(shown(request, made, token), status=status)

        return once(request, work, lambda pk: shown(request, _of(row.pk, port, pk)))

    @extend_schema(operation_id="shares_delete", request=None, responses={204: None},
                   summary="End the share at once, open sockets included")
    def delete(self, request: Request, workspace_id: str, port: int) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="operator")
        note(request, port=_port(port))
        if not previews.unshare(actor, row, port):
            raise Problem("not_found", "This port is not shared.")
        return Response(status=204)


def shown(request: Request, row: PreviewShare, token: str = "") -> dict[str, Any]:
    template = shapes.preview_template(request._request)
    url = template.replace("{port}", str(row.port)).replace("{id}", row.workspace_id)
    return {"port": row.port, "visibility": row.visibility, "url": url, "token": token or None,
            "link": f"{url}?{previews.LINK_PARAMETER}={token}" if token else None,
            "expires_at": shapes.instant(row.expires_at), "created_at": shapes.instant(row.created_at),
            "actor": {"type": row.actor_type, "name": row.actor_name}}


def _port(port: int) -> int:
    if not 0 < port < 65536:
        raise Problem("not_found", "A port is a number from 1 to 65535.")
    return port


def _of(workspace_id: str, port: int, share_id: str = "") -> PreviewShare:
    rows = PreviewShare.objects.filter(workspace_id=workspace_id, port=port)
    found = previews.still(rows.filter(pk=share_id) if share_id else rows).first()
    if found is None:
        raise Problem("not_found", "This port is not shared.")
    return found
