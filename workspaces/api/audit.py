"""The audit over REST, for admins. Called by urls; reads rows, changes none."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces.api import queries, shapes
from workspaces.api.schema import LIST, query_parameter
from workspaces.api.serializers_people import AuditOut
from workspaces.models_people import AuditEntry

EXACT = {"actor": "actor_name", "kind": "kind", "target": "target", "outcome": "outcome", "token": "token_id",
         "address": "address"}
FILTERS = [*(query_parameter(name, str, f"Only with this {name}") for name in EXACT),
           query_parameter("since", OpenApiTypes.DATETIME, "From this instant on"),
           query_parameter("until", OpenApiTypes.DATETIME, "Before this instant")]


class AuditList(APIView):
    admin = True
    scopes: ClassVar = {"GET": "admin"}

    @extend_schema(operation_id="audit_list", summary="Who did what, newest first, refused acts included",
                   parameters=[*LIST, *FILTERS], responses=AuditOut(many=True))
    def get(self, request: Request) -> Response:
        rows = AuditEntry.objects.all()
        for parameter in request.GET:
            if parameter in EXACT:
                rows = rows.filter(**{EXACT[parameter]: queries.text(request, parameter)})
            elif parameter not in ("since", "until", "limit", "cursor"):
                raise queries.refuse(parameter[:100], "There is no such filter.")
        since, until = _instant(request, "since"), _instant(request, "until")
        rows = rows.filter(created_at__gte=since) if since else rows
        rows = rows.filter(created_at__lt=until) if until else rows
        return Response(queries.page(request, rows, lambda found: [shapes.audit(row) for row in found]))


def _instant(request: Request, name: str) -> datetime | None:
    said = queries.text(request, name)
    if said is None:
        return None
    try:
        found = parse_datetime(said)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        raise queries.refuse(name, "An instant as RFC 3339 writes it.")
    return found
