"""Policies over REST: for admins, and for everybody what holds for them. Called by urls; asks policies and forecast."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import forecast, policies
from workspaces.api import queries, shapes
from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.api.schema import query_parameter
from workspaces.api.serializers import DryRunOut, EffectiveOut, PolicyIn, PolicyOut, ProposalIn
from workspaces.models import User
from workspaces.models_policy import Policy
from workspaces.policy import Terms

ADMIN = "admin"
USER = query_parameter("user", str, "This person's; left out: one's own")
DAYS = query_parameter("days", {"type": "integer", "minimum": 0, "maximum": 7320, "default": 30}, "How far to look")
MOST_DAYS = 7320
RUNNING = query_parameter("running", {"type": "string", "enum": ["true", "false"]},
                          "With those that run now and would go to rest")


class PolicyList(APIView):
    admin = True
    scopes: ClassVar = {"GET": ADMIN}

    @extend_schema(operation_id="policies_list", summary="Everything that admins have set",
                   responses=PolicyOut(many=True))
    def get(self, request: Request) -> Response:
        rows = Policy.objects.select_related("group", "user")
        return Response({"results": [shapes.policy(row) for row in rows], "next": None})


class PolicyDetail(APIView):
    admin = True
    scopes: ClassVar = {"GET": ADMIN, "PUT": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN}
    audits: ClassVar = {"PUT": "policy.set", "PATCH": "policy.set", "DELETE": "policy.remove"}

    @extend_schema(operation_id="policies_get", summary="The terms of default, group:NAME or user:NAME",
                   responses=PolicyOut)
    def get(self, request: Request, scope: str) -> Response:
        row = Policy.objects.select_related("group", "user").filter(pk=policies.find(scope)[0]).first()
        if row is None:
            raise Problem("not_found", "Nothing is set for it.")
        return Response(shapes.policy(row))

    @extend_schema(operation_id="policies_set", summary="Set all terms; what is left out is inherited",
                   request=PolicyIn, responses=PolicyOut)
    def put(self, request: Request, scope: str) -> Response:
        return self._set(request, scope, merge=False)

    @extend_schema(operation_id="policies_change", summary="Set some terms; null inherits one again",
                   request=PolicyIn, responses=PolicyOut)
    def patch(self, request: Request, scope: str) -> Response:
        return self._set(request, scope, merge=True)

    @extend_schema(operation_id="policies_delete", summary="Inherit everything again", responses={204: None})
    def delete(self, request: Request, scope: str) -> Response:
        policies.remove(scope)
        return Response(status=204)

    @staticmethod
    def _set(request: Request, scope: str, *, merge: bool) -> Response:
        form = PolicyIn(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(shapes.policy(policies.put(actor_of(request), scope, form.validated_data["terms"],
                                                   merge=merge)))


class EffectiveView(APIView):
    scopes: ClassVar = {"GET": "workspaces:read"}

    @extend_schema(operation_id="policies_effective", summary="What holds for a person, and who said so",
                   parameters=[USER], responses=EffectiveOut)
    def get(self, request: Request) -> Response:
        actor, name = actor_of(request), queries.text(request, "user")
        own = User.objects.get(pk=actor.person)
        user = own if name in (None, own.get_username()) else _somebody(actor.is_admin, str(name))
        terms = {term: found.to_json() for term, found in policies.effective(user).items()}
        return Response({"user": user.get_username(), "terms": terms, "built_in": policies.built_in()})


def _somebody(is_admin: bool, name: str) -> User:
    found = User.objects.filter(username=name).first() if is_admin else None
    if found is None:
        raise Problem("not_found", "There is no such person, or it is not for you to see.")
    return found


class DryRun(APIView):
    """GET: by the policies that are set. POST: as if these terms were set; nothing is changed."""

    admin = True
    scopes: ClassVar = {"GET": ADMIN, "POST": ADMIN}
    audits: ClassVar = {"POST": "policy.dry_run"}

    @extend_schema(operation_id="policies_dry_run", summary="What would go, and when",
                   parameters=[USER, DAYS, RUNNING],
                   responses=DryRunOut)
    def get(self, request: Request) -> Response:
        return self._answer(request, None)

    @extend_schema(operation_id="policies_dry_run_proposed", summary="What would go if these terms were set",
                   parameters=[USER, DAYS, RUNNING], request=ProposalIn, responses={200: DryRunOut})
    def post(self, request: Request) -> Response:
        form = ProposalIn(data=request.data)
        form.is_valid(raise_exception=True)
        key = policies.find(form.validated_data["scope"])[0]
        return self._answer(request, {key: policies.checked(form.validated_data["terms"])})

    @staticmethod
    def _answer(request: Request, proposed: dict[str, Terms] | None) -> Response:
        days = queries.whole(request, "days", 30, 0, MOST_DAYS)
        name = queries.text(request, "user")
        owner = _somebody(True, name) if name is not None else None
        found, complete = forecast.forecast(policies.Book(proposed), timezone.now(), timedelta(days=days), owner,
                                            running=queries.flag(request, "running"))
        return Response({"results": [_shown(one) for one in found], "complete": complete})


def _shown(one: forecast.Forecast) -> dict[str, Any]:
    return {"kind": one.kind, "id": one.id, "name": one.name, "workspace": one.workspace, "owner": one.owner,
            "to": one.to, "at": shapes.instant(one.at), "because": one.because, "noticed": one.noticed}
