"""Which socket is where. Imported by `workspaces.config.asgi` once Django is set up."""

from __future__ import annotations

from typing import Any

from django.urls import re_path

from workspaces.live.consumers import AllEvents, WorkspaceEvents

websocket_urlpatterns: list[Any] = [
    re_path(r"^ws/v1/events$", AllEvents.as_asgi()),
    re_path(r"^ws/v1/workspaces/(?P<workspace_id>[a-z2-7]{20})/events$", WorkspaceEvents.as_asgi()),
]
