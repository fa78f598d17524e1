"""The app's half of a preview's sign-in hop: from a session here to a pass on the preview's own origin.

    preview (no pass) ─▶ here (session; sign in first if there is none) ─▶ preview's /.berth/enter?code=… ─▶ preview

Called by Django through urls.py; calls `previews` for a code that is good for one port, once, for a minute. Where it
leads is made from a port and an id alone, so it can lead nowhere else. The other half is the gateway's.
"""

from __future__ import annotations

from urllib.parse import quote

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from workspaces import preview_names, previews
from workspaces.api import shapes
from workspaces.api.errors import Problem
from workspaces.preview_page import POLICY, page

LONGEST_PATH = 8192


@require_safe
def sign_in(request: HttpRequest) -> HttpResponse:
    """`?to=3000--ID` and `?path=` where to end up on it, as the browser spelled it."""
    name = preview_names.of_label(request.GET.get("to", ""))
    if name is None:
        return _refused(previews.forbidden("This is no preview's address."))
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    try:
        code = previews.issue_code(request.session.session_key or "", name)
    except Problem as problem:
        return _refused(problem)
    path = request.GET.get("path", "/")[:LONGEST_PATH]
    origin = shapes.preview_template(request).replace("{port}--{id}", name.label)
    return HttpResponse(status=303, headers={
        "Location": f"{origin}.berth/enter?code={code}&path={quote(path, safe='')}",
        "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"})


def _refused(problem: Problem) -> HttpResponse:
    return HttpResponse(page(problem), status=problem.status, headers={
        "Content-Security-Policy": POLICY, "Cache-Control": "no-store", "Berth-Error": problem.code})
