"""Every tool there is, in the order they are listed. Read by `server`; a test holds the documentation to it."""

from __future__ import annotations

from workspaces.gateway.mcp import execs, files, places, points
from workspaces.gateway.mcp.tool import Tool

TOOLS: tuple[Tool, ...] = (*execs.TOOLS, *files.TOOLS, *points.TOOLS, *places.TOOLS)
