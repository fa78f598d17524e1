"""The people of an instance over REST, for admins: list with limits and use, new ones, switched off, codes; and groups.
Called by urls; asks `people`, quota and policies, in bulk for lists.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import people, policies, quota
from workspaces.api import queries, shapes
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.idempotency import once
from workspaces.api.queries import Order
from workspaces.api.schema import IDEMPOTENT, LIST, query_parameter
from workspaces.api.serializers_people import CodeOut, GroupOut, UserIn, UserOut, UserPatch
from workspaces.models import User

ADMIN = "admin"
BY_NAME = Order("username", descending=False, read=queries.as_text, pk=int)
FLAGS = {"active": "is_active", "is_admin": "is_superuser"}
FILTERS = [query_parameter("search", {"type": "string", "maxLength": 150}, "Only those with this in their name"),
           *(query_parameter(name, {"type": "string", "enum": ["true", "false"]}, "Only those who are, or are not")
             for name in FLAGS)]


class UserList(APIView):
    admin = True
    scopes: ClassVar = {"GET": ADMIN, "POST": ADMIN}
    audits: ClassVar = {"POST": "user.create"}

    @extend_schema(operation_id="users_list", summary="Everybody by name, with limits and use, for admins",
                   parameters=[*LIST, *FILTERS], responses=UserOut(many=True))
    def get(self, request: Request) -> Response:
        return Response(queries.page(request, _filtered(request), shown, BY_NAME))

    @extend_schema(operation_id="users_create", parameters=[IDEMPOTENT], request=UserIn, responses={201: UserOut},
                   summary="Somebody new, without a password: a code lets them set one")
    def post(self, request: Request) -> Response:
        form = UserIn(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        note(request, target=f"user:{wanted['name']}", is_admin=wanted["is_admin"])

        def work() -> tuple[int, str, Response]:
            user = people.create(wanted["name"], is_admin=wanted["is_admin"])
            return 201, str(user.pk), Response(shown([user])[0], status=201)

        return once(request, work, lambda pk: shown(list(User.objects.filter(pk=pk)))[0])


class UserDetail(APIView):
    admin = True
    scopes: ClassVar = {"GET": ADMIN, "PATCH": ADMIN}
    audits: ClassVar = {"PATCH": "user.change"}

    @extend_schema(operation_id="users_get", summary="One person, for admins", responses=UserOut)
    def get(self, request: Request, user: str) -> Response:
        return Response(shown([people.named(user)])[0])

    @extend_schema(operation_id="users_change", request=UserPatch, responses=UserOut,
                   summary="Switch somebody off (what they have open ends, their workspaces rest) or on; make an admin")
    def patch(self, request: Request, user: str) -> Response:
        form = UserPatch(data=request.data)
        form.is_valid(raise_exception=True)
        note(request, target=f"user:{user}", **form.validated_data)
        return Response(shown([people.change(actor_of(request), user, form.validated_data)])[0])


class UserCode(APIView):
    admin = True
    scopes: ClassVar = {"POST": ADMIN}
    audits: ClassVar = {"POST": "user.code"}

    @extend_schema(operation_id="users_code", parameters=[IDEMPOTENT], request=None, responses={201: CodeOut},
                   summary="A one-time code to set a password with, shown this once; a person's act, never a token's")
    def post(self, request: Request, user: str) -> Response:
        actor = actor_of(request)
        note(request, target=f"user:{user}")

        def work() -> tuple[int, str, Response]:
            found, code, ends = people.make_code(actor, user)
            return 201, str(found.pk), Response({"user": user, "code": code, "expires_at": shapes.instant(ends)},
                                                status=201)

        return once(request, work, lambda pk: {"user": user, "code": None, "expires_at": None})


class GroupList(APIView):
    admin = True
    scopes: ClassVar = {"GET": ADMIN}

    @extend_schema(operation_id="groups_list", summary="Groups that policies may be set for; made in the admin site",
                   responses=GroupOut(many=True))
    def get(self, request: Request) -> Response:
        rows = Group.objects.annotate(people=Count("user")).order_by("name")
        return Response({"results": [{"name": row.name, "people": row.people} for row in rows], "next": None})


def _filtered(request: Request) -> QuerySet[User]:
    rows = User.objects.all()
    for parameter in request.GET:
        if parameter in FLAGS:
            rows = rows.filter(**{FLAGS[parameter]: queries.flag(request, parameter)})
        elif parameter == "search":
            said = queries.text(request, "search") or ""
            rows = rows.filter(Q(username__icontains=said) | Q(email__icontains=said))
        elif parameter not in ("limit", "cursor"):
            raise queries.refuse(parameter[:100], "There is no such filter.")
    return rows


def shown(users: list[User]) -> list[dict[str, Any]]:
    """Many at the price of a few queries."""
    ids = [user.pk for user in users]
    book, used, stored = policies.Book(), quota.used_by_all(ids), quota.stored_by_all(ids)
    groups: dict[int, list[str]] = defaultdict(list)
    for pk, name in Group.objects.filter(user__in=ids).order_by("name").values_list("user", "name"):
        groups[pk].append(name)
    return [shapes.person(user, groups[user.pk], quota.limits_in(book.of(user.pk)), used[user.pk],
                          stored.get(user.pk, 0)) for user in users]
