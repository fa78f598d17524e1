"""The official SDK's client at a gateway's /mcp, for the tests of it. `mode="legacy"` is a host of the years before."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult


class Caller(Protocol):
    async def call_tool(self, tool: str, arguments: dict[str, Any], /) -> CallToolResult: ...


@contextlib.asynccontextmanager
async def connected(base_url: str, secret: str, query: str = "", mode: str = "auto", **headers: str
                    ) -> AsyncIterator[Client]:
    said = {"Authorization": f"Bearer {secret}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (httpx2.AsyncClient(headers=said, timeout=120) as http,
                Client(streamable_http_client(f"{base_url}/mcp{query}", http_client=http), mode=mode) as client):
        yield client


async def call(client: Caller, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The data of an answer that is no refusal."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return dict(result.structured_content)


async def refused(client: Caller, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The problem that the tool answered with; its text says the code first."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content[0].text
    assert result.content[0].text.startswith(f"{result.structured_content['code']}: ")
    return dict(result.structured_content)
