"""For admins and for whoever watches the instance: hosts, and whether it is ready. Called by urls; asks the hatch."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import connection
from django.db.models import Count
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from sandboxes import machines
from sandboxes.models import Host
from workspaces import nudges
from workspaces.api import shapes
from workspaces.api.serializers import HostOut

HEARD_WITHIN = timedelta(seconds=60)


class HostList(APIView):
    admin = True
    scopes: ClassVar = {"GET": "admin"}

    @extend_schema(operation_id="hosts_list", summary="Hosts, for admins", responses=HostOut(many=True))
    def get(self, request: Request) -> Response:
        rows = Host.objects.annotate(machine_count=Count("sandboxes")).order_by("pk")
        return Response({"results": [shapes.host(row, row.machine_count, reachable(row)) for row in rows],
                         "next": None})


def reachable(host: Host) -> bool:
    return host.last_seen_at is not None and host.last_seen_at > timezone.now() - HEARD_WITHIN


def ready(request: HttpRequest) -> JsonResponse:
    """200 when a workspace could be made now: the database, the broker and a host answer."""
    said = {"database": _database(), "broker": _broker(), "host": _host()}
    fine = all(word == "ok" for word in said.values())
    return JsonResponse({"ready": fine, **said}, status=200 if fine else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return "ok"
    except Exception as error:  # whatever a driver raises, the answer is the same word
        return type(error).__name__


def _broker() -> str:
    client = nudges.connection()
    if client is None:
        return "not configured"
    try:
        return "ok" if client.ping() else "no answer"
    except Exception as error:  # as above
        return type(error).__name__


def _host() -> str:
    try:
        return "ok" if any(reachable(host) and not host.draining for host in machines.hosts()) else "no host answers"
    except Exception as error:  # as above
        return type(error).__name__
