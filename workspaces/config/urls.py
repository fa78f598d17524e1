"""Every address Django answers, wired in one place. Read by Django. What carries bytes is the gateway's."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from workspaces.api import operations

handler400 = "workspaces.api.fallback.bad_request"
handler403 = "workspaces.api.fallback.forbidden"
handler404 = "workspaces.api.fallback.not_found"
handler500 = "workspaces.api.fallback.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("workspaces.api.urls")),
    path("readyz", operations.ready),
    # One way to sign in, with one brake on guessing: the admin's own form is not offered.
    path("admin/login/", RedirectView.as_view(url="/sign-in?next=/admin/")),
    path("admin/", admin.site.urls),
    path("", include("workspaces.pages.urls")),
]
