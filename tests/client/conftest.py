"""What the client's tests share: one person's clients at the stack, and the command line as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from berth_client import AsyncBerth, Berth, OneWorkspace
from tests.stack import ROOT, Stack

PACKAGE = ROOT / "clients" / "python"
USER = "clara"


@pytest.fixture(scope="session")
def berth(stack: Stack) -> Iterator[Berth]:
    with Berth(stack.base_url, stack.token(USER)) as client:
        yield client


@pytest.fixture
async def async_berth(stack: Stack):
    async with AsyncBerth(stack.base_url, stack.token(USER)) as client:
        yield client


@pytest.fixture(scope="session")
def one(berth: Berth, stack: Stack) -> OneWorkspace:
    """A running workspace that every test may use and none may end."""
    return berth.workspace(stack.workspace(USER, "shared")["id"])


@dataclass
class Cli:
    environment: dict[str, str]

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "berth_client.cli", *words]

    def run(self, *words: str, stdin: bytes | None = None, timeout_s: float = 120) -> subprocess.CompletedProcess:
        return subprocess.run(self.argv(*words), env=self.environment, capture_output=True, timeout=timeout_s,
                              **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}))

    def good(self, *words: str, stdin: bytes | None = None) -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{words}: {done.stdout.decode()}\n{done.stderr.decode()}"
        return done.stdout.decode()

    def json(self, *words: str) -> Any:
        return json.loads(self.good(*words, "--json"))

    def start(self, *words: str, **how: Any) -> subprocess.Popen:
        return subprocess.Popen(self.argv(*words), env=self.environment, **how)


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "XDG_"))}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1", **more}


@pytest.fixture(scope="session")
def cli(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    home = tmp_path_factory.mktemp("home")
    return Cli(environment(home, BERTH_URL=stack.base_url, BERTH_TOKEN=stack.token(USER)))
