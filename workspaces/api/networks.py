"""What a workspace may reach, over REST: read it, replace it live. Called by urls; asks selectors, then networks.

The log of what it did reach is the gateway's, because hosts keep it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import networks, policies, selectors
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.serializers_network import NetworkIn, NetworkOut
from workspaces.models import Workspace

SCOPE = "network"
IF_MATCH = OpenApiParameter("If-Match", {"type": "string", "maxLength": 40}, OpenApiParameter.HEADER,
                            description="Only over this revision, as `ETag` names it; else 412")


class NetworkDetail(APIView):
    scopes: ClassVar = {"GET": SCOPE, "PUT": SCOPE}
    may_answer: ClassVar = (412,)
    audits: ClassVar = {"PUT": "network.change"}

    @extend_schema(operation_id="network_get", summary="What it may reach, and what bounds that", responses=NetworkOut)
    def get(self, request: Request, workspace_id: str) -> Response:
        return _shown(selectors.workspace_for(actor_of(request), workspace_id, metadata=True))

    @extend_schema(operation_id="network_set", parameters=[IF_MATCH], request=NetworkIn, responses=NetworkOut,
                   summary="Replace what it may reach, live: nothing restarts, and what is not allowed any more is cut")
    def put(self, request: Request, workspace_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="owner", metadata=True)
        form = NetworkIn(data=request.data)
        form.is_valid(raise_exception=True)
        note(request, mode=form.validated_data["mode"], rules=len(form.validated_data.get("rules", ())))
        return _shown(networks.put(actor, row, form.validated_data, _revision(request)))


def _revision(request: Request) -> int | None:
    said = request.headers.get("If-Match")
    if said is None or said.strip() == "*":
        return None
    revision = networks.revision_of(said)
    if revision is None:
        raise Problem("precondition_failed", "If-Match names no revision of this policy.")
    return revision


def _shown(row: Workspace) -> Response:
    terms = policies.values(policies.effective(row.owner))
    said: dict[str, Any] = {
        "network": row.network, "revision": row.network_revision, "in_force": networks.is_in_force(row),
        "supported": networks.is_supported(row), "bound": terms["network_bound"],
        "private_allowed": terms["network_private"],
        "limits": {name: terms[f"network_{name}"] for name in ("connections", "bytes_per_s", "dns_per_s")}}
    return Response(said, headers={"ETag": f'"{row.network_revision}"'})
