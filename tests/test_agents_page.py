"""docs/agents.md is true: its loops run as they stand, and its tables name what there is and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp_client import connected
from tests.stack import Stack
from workspaces.api.errors import STATUS
from workspaces.gateway.mcp.catalog import TOOLS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "agents.md").read_text()
ROW = re.compile(r"^\| `([a-z_]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def block(name: str) -> str:
    """The code block that the page marks as one to be tested."""
    return re.search(rf"<!-- test: {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL).group(1)


def table(heading: str) -> list[tuple[str, str, str]]:
    return ROW.findall(PAGE.partition(heading)[2].partition("\n## ")[0])


def test_the_table_of_codes_is_the_map_of_errors() -> None:
    rows = [(code, str(status), title) for code, (status, title) in STATUS.items()]
    true = "\n".join(f"| `{code}` | {status} | {title} |" for code, status, title in rows)
    assert table("\n## Codes\n") == rows, f"the table in docs/agents.md should be\n{true}"


def test_the_table_of_tools_is_the_catalog() -> None:
    rows = table("\n## Through the Model Context Protocol\n")
    assert [(name, scope.strip("`")) for name, scope, _does in rows] == [(tool.name, tool.scope) for tool in TOOLS]


def ran(stack: Stack, command: list[str], script: str) -> str:
    """What it prints; the scripts are run by what a reader would run them with."""
    environment = {**os.environ, "URL": stack.base_url, "TOKEN": stack.token("anna"),
                   "PYTHONPATH": str(ROOT / "clients" / "python")}
    done = subprocess.run(command, input=script, env=environment, text=True, capture_output=True, timeout=180)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.stack
def test_the_loop_in_curl_runs_as_it_stands(stack: Stack) -> None:
    said = ran(stack, ["bash", "-euo", "pipefail"], block("curl")).splitlines()
    assert said[:4] == ["42", "", "step 1", "step 2"] and said[4] == "step 3"
    assert re.fullmatch("[a-z2-7]{20}", said[5]) and said[6:] == ["stopped"]


@pytest.mark.stack
def test_the_loop_in_python_runs_as_it_stands(stack: Stack) -> None:
    assert ran(stack, [sys.executable, "-"], block("python")) == "42\n"


@pytest.mark.stack
async def test_the_entry_for_a_host_of_mcp_leads_to_the_tools(stack: Stack) -> None:
    workspace = stack.workspace("anna")["id"]
    said = json.loads(block("mcp").replace("WORKSPACE_ID", workspace))["mcpServers"]["berth"]
    assert said["type"] == "http" and said["headers"] == {"Authorization": "Bearer TOKEN"}
    base, _, query = said["url"].partition("/mcp")
    assert base == "http://127.0.0.1:8000"
    async with connected(stack.base_url, stack.token("anna"), query) as client:
        assert {"exec", "read_file"} <= {tool.name for tool in (await client.list_tools()).tools}
