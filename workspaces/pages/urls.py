"""The addresses of the pages. Included by workspaces/config/urls.py at the root."""

from __future__ import annotations

from django.urls import path

from workspaces.pages import previews, views

urlpatterns = [
    path("", views.home, name="home"),
    path("workspaces/<slug:workspace_id>", views.workspace, name="workspace"),
    path("account", views.account, name="account"),
    path("manage", views.manage, {"section": "hosts"}, name="manage"),
    path("manage/<slug:section>", views.manage),
    path("sign-in", views.signin, name="signin"),
    path("previews/sign-in", previews.sign_in, name="preview-signin"),
]
