"""Who am I, signing in and out, tokens. Called by urls; asks signin and tokens.

Session endpoints are for the front end: `GET /session` says who is signed in and hands out the CSRF token,
`POST` signs in, `DELETE` signs out, `POST /session/setup` spends a one-time code and sets a password.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib.auth import login, logout
from django.middleware.csrf import get_token
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import nudges, selectors, signin, tokens
from workspaces.actors import BY_NAME_ONLY, SCOPES, Actor
from workspaces.api import queries, shapes
from workspaces.api.auditing import address_of, note
from workspaces.api.auth import StrictSessionAuthentication, actor_of
from workspaces.api.errors import Problem
from workspaces.api.idempotency import once
from workspaces.api.schema import IDEMPOTENT, LIST
from workspaces.api.serializers import MeOut, SessionOut, SetUp, SignIn, TokenCreate, TokenOut
from workspaces.models import AccessToken, User


class Me(APIView):
    @extend_schema(operation_id="me", summary="Who asks, what they may use and what they use", responses=MeOut)
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        return Response(shapes.me(User.objects.get(pk=actor.person), actor))


class SessionView(APIView):
    public = True
    authentication_classes = (StrictSessionAuthentication,)
    audits: ClassVar = {"POST": "session.create", "DELETE": "session.delete"}

    @extend_schema(operation_id="session_get", summary="Who is signed in, and the CSRF token", auth=[],
                   responses=SessionOut)
    def get(self, request: Request) -> Response:
        return Response(_session(request))

    @extend_schema(operation_id="session_create", summary="Sign in", auth=[], request=SignIn, responses=SessionOut)
    def post(self, request: Request) -> Response:
        _enforce_csrf(request)
        form = SignIn(data=request.data)
        form.is_valid(raise_exception=True)
        # A name that nobody has may be a password in the wrong field.
        known = User.objects.filter(username=form.validated_data["username"]).first()
        note(request, target=f"user:{known.get_username()}" if known else "")
        user = signin.with_password(request._request, form.validated_data["username"],
                                    form.validated_data["password"], address_of(request._request))
        return _signed_in(request, user)

    @extend_schema(operation_id="session_delete", summary="Sign out", auth=[], request=None,
                   responses={204: None})
    def delete(self, request: Request) -> Response:
        _enforce_csrf(request)
        key = request._request.session.session_key
        if isinstance(request.user, User):
            note(request, target=f"user:{request.user.get_username()}")
        logout(request._request)
        if key:
            nudges.credential_changed("session", key)
        return Response(status=204)


class SessionSetup(APIView):
    public = True
    authentication_classes = ()
    audits: ClassVar = {"POST": "session.setup"}

    @extend_schema(operation_id="session_setup", summary="Spend a one-time code: set a password and sign in",
                   auth=[], request=SetUp, responses=SessionOut)
    def post(self, request: Request) -> Response:
        _enforce_csrf(request)
        form = SetUp(data=request.data)
        form.is_valid(raise_exception=True)
        user = signin.with_setup_code(form.validated_data["code"], form.validated_data["password"],
                                      address_of(request._request))
        return _signed_in(request, user)


def _enforce_csrf(request: Request) -> None:
    """Signing in is a change like any other: nobody else's page may do it in somebody's browser."""
    StrictSessionAuthentication().enforce_csrf(request)


def _signed_in(request: Request, user: User) -> Response:
    note(request, target=f"user:{user.get_username()}")
    login(request._request, user, backend="django.contrib.auth.backends.ModelBackend")
    return Response({"user": shapes.me(user, selectors.actor_of_user(user)), "csrf_token": get_token(request._request)})


def _session(request: Request) -> dict[str, Any]:
    user = request.user
    me = shapes.me(user, selectors.actor_of_user(user)) if isinstance(user, User) else None
    return {"user": me, "csrf_token": get_token(request._request)}


class TokenList(APIView):
    scopes: ClassVar = {"GET": "workspaces:read", "POST": "workspaces:write"}
    audits: ClassVar = {"POST": "token.create"}

    @extend_schema(operation_id="tokens_list", summary="One's own tokens", parameters=LIST,
                   responses=TokenOut(many=True))
    def get(self, request: Request) -> Response:
        rows = _tokens_of(actor_of(request))
        return Response(queries.page(request, rows, lambda found: [shapes.token(row) for row in found]))

    @extend_schema(operation_id="tokens_create", summary="Make a token; its secret is shown this once",
                   parameters=[IDEMPOTENT], request=TokenCreate, responses={201: TokenOut})
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        form = TokenCreate(data=request.data)
        form.is_valid(raise_exception=True)

        def work() -> tuple[int, str, Response]:
            row, secret = _make_token(actor, form.validated_data)
            note(request, target=f"token:{row.pk}", name=row.name, scopes=row.scopes)
            return 201, row.pk, Response({**shapes.token(row), "secret": secret}, status=201)

        return once(request, work, lambda pk: {**shapes.token(_token_for(actor, pk)), "secret": None})


class TokenDetail(APIView):
    scopes: ClassVar = {"GET": "workspaces:read", "DELETE": "workspaces:write"}
    audits: ClassVar = {"DELETE": "token.revoke"}

    @extend_schema(operation_id="tokens_get", summary="One token", responses=TokenOut)
    def get(self, request: Request, token_id: str) -> Response:
        return Response(shapes.token(_token_for(actor_of(request), token_id)))

    @extend_schema(operation_id="tokens_revoke", summary="Revoke it, at once and for good", responses={204: None})
    def delete(self, request: Request, token_id: str) -> Response:
        actor = actor_of(request)
        tokens.revoke(_no_wider(actor, _token_for(actor, token_id)))
        return Response(status=204)


def _tokens_of(actor: Actor) -> Any:
    """A token that is limited to workspaces sees of all tokens only itself."""
    rows = AccessToken.objects.filter(user_id=actor.person, revoked_at=None)
    return rows if actor.workspace_ids is None else rows.filter(pk=actor.token_id)


def _token_for(actor: Actor, token_id: str) -> AccessToken:
    found: AccessToken | None = _tokens_of(actor).filter(pk=token_id).first()
    if found is None:
        raise Problem("not_found", "There is no such token.")
    return found


def _no_wider(actor: Actor, token: AccessToken) -> AccessToken:
    """A token ends itself and those that may no more than it may; a person ends all of theirs."""
    if actor.token_id not in (None, token.pk) and set(token.scopes) - actor.scopes:
        raise Problem("forbidden", "This token may do more than yours.")
    return token


def _make_token(actor: Actor, fields: dict[str, Any]) -> tuple[AccessToken, str]:
    """Nobody grants more than they have: not in scopes, not in workspaces, not in time."""
    scopes = frozenset(fields.get("scopes") or actor.scopes - BY_NAME_ONLY)
    if scopes - actor.scopes:
        raise Problem("scope_missing", f"You cannot grant {', '.join(sorted(scopes - actor.scopes))}.")
    user = User.objects.get(pk=actor.person)
    return tokens.create(user, fields["name"], scopes & SCOPES, workspace_ids=_limits(actor, fields),
                         expires_at=_expiry(actor, fields), maker=actor)


def _limits(actor: Actor, fields: dict[str, Any]) -> Any:
    wanted = fields.get("workspace_ids")
    if wanted is None:
        return actor.workspace_ids
    visible = set(selectors.workspaces_of(actor).filter(pk__in=wanted).values_list("pk", flat=True))
    unknown = sorted(set(wanted) - visible)
    if unknown:
        raise Problem("invalid", "Some fields are not valid.",
                      errors={"workspace_ids": [f"There is no workspace {unknown[0]}."]})
    return wanted


def _expiry(actor: Actor, fields: dict[str, Any]) -> Any:
    seconds = fields.get("expires_in_s")
    asked = None if seconds is None else timezone.now() + timedelta(seconds=seconds)
    if actor.token_id is None:
        return asked
    own = AccessToken.objects.get(pk=actor.token_id).expires_at
    return min((at for at in (asked, own) if at is not None), default=None)
