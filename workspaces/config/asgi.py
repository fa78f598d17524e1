"""The ASGI application that Daphne serves: Django for HTTP, Channels for WebSockets. Wires; knows no view."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspaces.config.settings")
django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402  (needs Django's apps)
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from workspaces.config.origin import SameOrigin  # noqa: E402
from workspaces.live.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter({
    "http": django_application,
    "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
})
