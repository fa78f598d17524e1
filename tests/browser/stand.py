"""One private instance of Berth for the browser tests: brought up and taken down by the product's own entry point.

Called by conftest.py. The driver is the fake one, which runs real processes and keeps real files, so that what is
tested here is the way from the browser to the guest and back, without minutes of emulation.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent.parent
PASSWORD = "a long enough passphrase"


@dataclass(frozen=True)
class Stand:
    url: str
    code: str
    environment: dict[str, str]

    def token(self, user: str = "admin") -> str:
        return self._ops("token", user).strip().splitlines()[-1]

    def agent(self, user: str = "admin") -> httpx.Client:
        """The REST API as a program uses it, beside the browser."""
        return httpx.Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {self.token(user)}"},
                            timeout=60)

    def down(self) -> None:
        self._ops("down")

    def _ops(self, *arguments: str) -> str:
        return run_ops(self.environment, *arguments)


def bring_up(folder: Path) -> Stand:
    port = _free_port()
    environment = {**os.environ, "BERTH_DATA": str(folder), "BERTH_CACHE": str(folder / "cache"),
                   "BERTH_DRIVER": "fake", "DJANGO_SETTINGS_MODULE": "workspaces.config.settings"}
    for own in ("BERTH_TEST_ROOT", "BERTH_TEST_OWNER"):
        environment.pop(own, None)
    said = run_ops(environment, "up", "--detach", "--port", str(port))
    code = re.search(r"^\s+([A-Z2-9]{4}(?:-[A-Z2-9]{4})+)$", said, re.MULTILINE)
    assert code, f"up printed no one-time code:\n{said}"
    return Stand(f"http://localhost:{port}", code.group(1), environment)


def run_ops(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "ops", *arguments], cwd=ROOT, env=environment, text=True,
                          capture_output=True, timeout=600)
    assert done.returncode == 0, f"ops {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
