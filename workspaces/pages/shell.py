"""A page's shell: one template, one script, the data it starts with, and the policy that lets nothing else run.

Called by views.py; calls the template engine. The data travels as `application/json`, which no browser executes.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render

from workspaces.api import shapes
from workspaces.pages.assets import assets

THEMES = frozenset({"light", "dark"})

#: No inline script runs. Style sheets that the terminal and the editor make at run time carry the nonce; style
#: attributes are allowed, because the terminal colours its cells with them (and no HTML text is ever parsed).
POLICY = ("default-src 'none'; script-src 'self'; style-src-elem 'self' 'nonce-{nonce}'; "
          "style-src-attr 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
          "font-src 'self'; connect-src 'self'; frame-src 'self' {previews}; manifest-src 'self'; base-uri 'none'; "
          "form-action 'self'; frame-ancestors 'none'; object-src 'none'")


def page(request: HttpRequest, name: str, title: str, status: int = 200, **data: Any) -> HttpResponse:
    """`data` joins what every page needs: who looks, the CSRF token for writes, the nonce for styles."""
    nonce = secrets.token_urlsafe(18)
    user = request.user
    start = {
        "page": name, "csrf": get_token(request), "nonce": nonce,
        "user": user.get_username(), "admin": bool(getattr(user, "is_superuser", False)),
        "workspace": "", "section": "", "missing": False, "next": "", "setup": False, **data,
    }
    theme = request.COOKIES.get("berth_theme", "")
    context = {"title": title, "start": start, "assets": assets(), "theme": theme if theme in THEMES else "system"}
    response = render(request, "page.html", context, status=status)
    response["Content-Security-Policy"] = POLICY.format(nonce=nonce, previews=_preview_origins(request))
    response["Cache-Control"] = "no-store"
    return response


def _preview_origins(request: HttpRequest) -> str:
    """Every port of every workspace has an origin of its own; those may stand in a frame of a page, and
    ourselves, because a preview's sign-in hop passes by here."""
    return shapes.preview_template(request).replace("{port}--{id}", "*").rstrip("/")
