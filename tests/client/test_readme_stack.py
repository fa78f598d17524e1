"""clients/python/README.md is true: its first loops run as they stand, and it names what there is."""

from __future__ import annotations

import re
import textwrap

import pytest

import berth_client
from berth_client import Berth, OneWorkspace
from tests.client.conftest import PACKAGE, USER
from tests.stack import Stack

pytestmark = pytest.mark.stack
TEXT = (PACKAGE / "README.md").read_text()
FIRST, AWAITED = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[:2]


async def test_the_first_loops_run_as_they_stand(stack: Stack, berth: Berth, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BERTH_URL", stack.base_url)
    monkeypatch.setenv("BERTH_TOKEN", stack.token(USER))
    exec(FIRST, {})
    assert capsys.readouterr().out == "42\n\n"
    names: dict = {}
    exec(f"async def loop():\n{textwrap.indent(AWAITED, '    ')}", names)
    await names["loop"]()
    shown = capsys.readouterr().out
    assert "hello" in shown and shown.endswith("Exited(code=0)\n")
    berth.workspace(berth.workspaces.named("first")).delete(purge=True)


def test_what_the_page_names_is_there() -> None:
    """Calls by their dotted names, classes of errors by theirs."""
    doors = {"berth": Berth("http://x", "t"), "ws": OneWorkspace(Berth("http://x", "t")._hand, "a" * 20)}
    for door, path in set(re.findall(r"`(berth|ws)\.([a-z_.]+)", TEXT)):
        found: object = doors[door]
        for name in path.split("."):
            found = getattr(found, name)
    classes = set(re.findall(r"`([A-Z][A-Za-z]+)`", TEXT.partition("## Errors")[2].partition("## berth-cli")[0]))
    assert {"Problem", "NotFound", "Unavailable"} <= classes
    assert [name for name in classes if not hasattr(berth_client, name)] == []
