"""`/mcp`: the same workspaces for agents that speak the Model Context Protocol (streamable HTTP, stateless).

    POST /mcp ─▶ endpoint (who, which origin, which pin) ─▶ the SDK's transport ─▶ server ─▶ a tool
                                                                                              │
    routes ◀── the gateway's own ASGI app, called in this process (`inside`) ◀────────────────┘

A tool holds no power of its own: each is one or a few requests of the public API under the caller's own token, so that
scopes, roles, waking, approvals, limits and the audit are those of REST. Nothing is kept between two requests, so any
process of the gateway answers any of them.
"""
