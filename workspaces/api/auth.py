"""Who asks, and may they? For DRF: bearer tokens, sessions with CSRF enforced, scopes per view.

Called by DRF before each view; calls `selectors`. `request.auth` is always an Actor afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from workspaces import selectors
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.models import User

if TYPE_CHECKING:  # DRF's views import this module
    from rest_framework.views import APIView


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer berth_…`."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        words = get_authorization_header(request).split()
        if not words:
            return None
        if words[0].lower() != b"bearer" or len(words) != 2:
            raise Problem("unauthenticated", "The Authorization header must read: Bearer berth_…")
        actor = selectors.actor_from_token(words[1].decode("latin-1"))
        return User.objects.get(pk=actor.person), actor

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class StrictSessionAuthentication(SessionAuthentication):
    """A signed-in browser. Anything but a plain read needs the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user: User = found[0]
        return user, selectors.actor_of_user(user)

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise Problem("csrf_failed", "Send the CSRF token in the X-CSRFToken header.") from error


class NeedsScope(BasePermission):
    """A view says which scope each method needs (`scopes = {"GET": …}`) and whether only admins may (`admin`)."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if getattr(view, "public", False):
            return True
        if not isinstance(request.auth, Actor):
            raise Problem("unauthenticated", "Sign in, or send a token.")
        if getattr(view, "admin", False) and not request.auth.is_admin:
            _refuse_admin(request.auth)
        needed = getattr(view, "scopes", {}).get(request.method)
        if needed is not None and not request.auth.may(needed):
            raise Problem("scope_missing", f"This token lacks the scope {needed}.", scope=needed)
        return True


def _refuse_admin(actor: Actor) -> None:
    if actor.type == "token" and not actor.may("admin"):
        raise Problem("scope_missing", "This token lacks the scope admin.", scope="admin")
    raise Problem("forbidden", "This is for admins.")


def actor_of(request: Request) -> Actor:
    """The actor of an authenticated request."""
    if not isinstance(request.auth, Actor):
        raise Problem("unauthenticated", "Sign in, or send a token.")
    return request.auth


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A token from `./berth token` or /api/v1/tokens."}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = StrictSessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        from django.conf import settings

        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME,
                "description": "A browser's session. Changes also need the X-CSRFToken header."}
