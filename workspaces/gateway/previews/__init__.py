"""Previews: programs in guests, shown under names of their own. Dispatched by Host, before every other route.

    front (who is it for?) ─▶ entry (who may) ─▶ passage (HTTP) ─▶ http1 ─▶ rawhost ─▶ hostd ─▶ 127.0.0.1:port
          │                                  └─▶ frames  (WebSocket) ──────┘
          └─▶ house (/.berth/…: the sign-in hop, the waiting page)

Nothing of the app's origin is served here, and nothing of a guest's there. A name says a port and a workspace and
nothing else, so nothing else can be reached through it.
"""
