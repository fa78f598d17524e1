"""For admins and for whoever watches the instance: hosts, and whether it is ready. Called by urls; asks the hatch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

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
from workspaces import nudges, wake
from workspaces.api import shapes
from workspaces.api.auditing import note
from workspaces.api.errors import Problem
from workspaces.api.serializers import HostOut, HostPatch, ImageOut

HEARD_WITHIN = timedelta(seconds=60)


class HostList(APIView):
    admin = True
    scopes: ClassVar = {"GET": "admin"}

    @extend_schema(operation_id="hosts_list", summary="Hosts, for admins", responses=HostOut(many=True))
    def get(self, request: Request) -> Response:
        rows = Host.objects.annotate(machine_count=Count("sandboxes")).order_by("pk")
        return Response({"results": [shapes.host(row, row.machine_count, reachable(row)) for row in rows],
                         "next": None})


class HostDetail(APIView):
    admin = True
    scopes: ClassVar = {"GET": "admin", "PATCH": "admin"}
    audits: ClassVar = {"PATCH": "host.change"}

    @extend_schema(operation_id="hosts_get", summary="One host, for admins", responses=HostOut)
    def get(self, request: Request, host: str) -> Response:
        return Response(_shown(host))

    @extend_schema(operation_id="hosts_change", request=HostPatch, responses=HostOut,
                   summary="Close it for new machines (`schedulable`), put what runs there to rest (`draining`)")
    def patch(self, request: Request, host: str) -> Response:
        form = HostPatch(data=request.data)
        form.is_valid(raise_exception=True)
        note(request, **form.validated_data)
        _shown(host)
        row = machines.set_host(host, **form.validated_data)
        if "draining" in form.validated_data:
            for machine_id in machines.machines_on(row):
                wake.after_commit(machine_id)
        return Response(_shown(host))


def _shown(host_id: str) -> dict[str, Any]:
    row = Host.objects.annotate(machine_count=Count("sandboxes")).filter(pk=host_id).first()
    if row is None:
        raise Problem("not_found", "There is no such host.")
    return shapes.host(row, row.machine_count, reachable(row))


class ImageList(APIView):
    scopes: ClassVar = {"GET": "workspaces:read"}

    @extend_schema(operation_id="images_list", summary="What a new workspace may be made of",
                   responses=ImageOut(many=True))
    def get(self, request: Request) -> Response:
        return Response({"results": [{"name": name} for name in sorted(machines.images())], "next": None})


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
