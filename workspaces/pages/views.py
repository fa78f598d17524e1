"""Home, one workspace, one's account, the admins' pages, sign-in. Called by Django through urls.py; asks `selectors`
what may be seen, draws nothing.

A page of a workspace that is not there, or not yours, is a 404 with the same words.
"""

from __future__ import annotations

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_safe

from workspaces import selectors
from workspaces.api.errors import Problem
from workspaces.pages.shell import page

SECTIONS = frozenset({"hosts", "people", "policies", "audit"})


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    return page(request, "home", "Berth")


@require_safe
def workspace(request: HttpRequest, workspace_id: str) -> HttpResponse:
    actor = selectors.actor_from_session(request.session.session_key or "")
    if actor is None or not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    try:
        found = selectors.workspace_for(actor, workspace_id)
    except Problem as problem:
        return page(request, "workspace", "Berth", status=problem.status, workspace=workspace_id, missing=True)
    return page(request, "workspace", f"{found.name} · Berth", workspace=found.pk)


@require_safe
def account(request: HttpRequest) -> HttpResponse:
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    return page(request, "account", "Account · Berth")


@require_safe
def manage(request: HttpRequest, section: str) -> HttpResponse:
    """For admins: hosts, people, policies, the audit. Others are told so, by status and in words."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if section not in SECTIONS:
        return page(request, "manage", "Admin · Berth", status=Problem("not_found").status, missing=True)
    if not getattr(request.user, "is_superuser", False):
        return page(request, "manage", "Admin · Berth", status=Problem("forbidden").status, section=section)
    return page(request, "manage", "Admin · Berth", section=section)


@require_safe
def signin(request: HttpRequest) -> HttpResponse:
    """`?setup` shows the form for the one-time code that `./berth up` printed."""
    after = safe_next(request)
    if request.user.is_authenticated:
        return HttpResponseRedirect(after)
    return page(request, "signin", "Sign in · Berth", next=after, setup="setup" in request.GET)


def safe_next(request: HttpRequest) -> str:
    """Where to go after sign-in: a path of this site, or home. A stranger's link must not lead elsewhere."""
    wanted = request.GET.get("next", "")
    local = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if local else "/"
