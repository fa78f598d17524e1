"""The Model Context Protocol's side: which tools a session has, and calling one. The SDK speaks the protocol.

Made by `endpoint`; finds the session in the request that the SDK hands back. Whatever a tool is refused is told to
the model as the tool's own error, with our `code`; only a tool that is not there is the protocol's.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from workspaces.api.errors import body as problem_body
from workspaces.gateway.mcp.catalog import TOOLS
from workspaces.gateway.mcp.inside import Refused
from workspaces.gateway.mcp.tool import Data, Said, Session, Tool

log = logging.getLogger("berth.gateway.mcp")

#: Where `endpoint` leaves the session in the ASGI scope.
SESSION = "berth.mcp.session"

INSTRUCTIONS = """\
Berth workspaces: persistent Linux microVMs. Disk, and usually memory, outlive standby. Any call wakes a sleeping \
workspace by itself; nothing has to be started first. `exec` runs a command; one that is still running when its call \
answers goes on, and `exec_output` follows it. Output and files come in bounded pieces that say where the next begins. \
Take a `checkpoint` before something risky; `restore` goes back to it, and can itself be undone. A refused call says a \
stable `code`; where `retry_after_s` is given, the same call may be repeated after so many seconds."""


def make_server() -> Server[Any]:
    return Server("berth", title="Berth workspaces", instructions=INSTRUCTIONS, on_list_tools=list_tools,
                  on_call_tool=call_tool)


def visible(session: Session) -> list[Tool]:
    """What the token's scopes allow. What a call really may, the API decides each time."""
    return [tool for tool in TOOLS if session.actor.may(tool.scope) and not (tool.beyond and session.pin)]


async def list_tools(context: ServerRequestContext[Any, Any], _page: PaginatedRequestParams | None) -> ListToolsResult:
    session = _session(context)
    return ListToolsResult(tools=[tool.described(session.pin is not None) for tool in visible(session)])


async def call_tool(context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    session = _session(context)
    tool = next((one for one in TOOLS if one.name == params.name and not (one.beyond and session.pin)), None)
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"There is no tool {params.name[:100]!r} here.")
    try:
        return _answer(await tool.run(session, tool.parsed(params.arguments or {})))
    except Refused as refused:
        return _refusal(refused.problem)
    except Exception:
        log.exception("the tool %s failed", tool.name)
        return _refusal(problem_body("internal", "The gateway failed at this; its log says where."))


def _session(context: ServerRequestContext[Any, Any]) -> Session:
    session = context.request.scope[SESSION] if context.request is not None else None
    assert isinstance(session, Session), "endpoint puts it there"
    return session


def _answer(said: Said) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=said.text)], structured_content=said.data)


def _refusal(problem: Data) -> CallToolResult:
    """`code: detail`, and whatever helps to go on; as data the problem+json object itself."""
    more = {k: v for k, v in problem.items() if k not in ("type", "title", "status", "code", "detail")}
    text = f"{problem['code']}: {problem.get('detail') or problem.get('title', '')}"
    if more:
        text += "\n" + json.dumps(more, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=problem, is_error=True)
