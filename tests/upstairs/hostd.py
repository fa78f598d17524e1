"""A real hostd with the fake driver, as a process of its own, for upstairs' tests. Sync, because plans are."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

from tests import forking

DEADLINE_S = 60.0


def until(what: str, look: Any, deadline_s: float = DEADLINE_S) -> Any:
    """What `look` gives once it is true."""
    end = time.monotonic() + deadline_s
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.02)


class Hostd:
    """`module`: `sandboxes.host`, or `tests.upstairs.sleepy`, which keeps memory images of a kind."""

    def __init__(self, module: str = "sandboxes.host") -> None:
        self.module = module
        # Unix socket names are short.
        self.folder = Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))
        self.socket = self.folder / "h.sock"
        self.process: forking.Forked | None = None

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    def start(self) -> None:
        self.process = forking.hostd(self.module, ["--state", str(self.folder / "state"), "--socket", str(self.socket),
                                                   "--images", str(self.folder / "images"), "--driver", "fake",
                                                   "--egress", str(self.folder / "nobody.sock")],
                                     dict(os.environ), self.folder / "log")
        until("hostd answers", self._answers)

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            return self.get("/v1/host")["version"] != ""
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> dict[str, Any]:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://h") as client:
            return dict(client.get(path, timeout=60).json())

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://h") as client:
            return dict(client.post(path, json=body, timeout=60).json())

    def phase(self, machine_id: str) -> str:
        return str(self.get(f"/v1/machines/{machine_id}")["phase"])

    def live(self) -> list[str]:
        return [m["machine_id"] for m in self.get("/v1/machines")["results"] if m["phase"] != "absent"]

    def folders_with_disks(self) -> list[str]:
        return [str(path) for path in (self.folder / "state").glob("machines/*/disk")]

    def pause(self) -> None:
        """It answers nobody, as a frozen host does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def clear(self) -> None:
        """Every machine destroyed, and waited for."""
        def one_round() -> bool:
            for machine_id in self.live():
                self.post(f"/v1/machines/{machine_id}/operations",
                          {"operation_id": uuid.uuid4().hex, "kind": "destroy", "generation": 10**9})
            return not self.live()
        until("all machines destroyed", one_round)

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.clear()
        self.process.terminate()
        self.process.wait(timeout=60)
