"""One workspace under soak: what its tree is and should be, and the things that are done to it. Called by `cycles.py`.

Speaks REST like any client. Every deed ends with the workspace awake; `check` then compares the whole tree.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import httpx

from tests.stack import Stack, until

SCRIPT = Path(__file__).with_name("manifest.py").read_text()
TREE = "/home/user/soak"
Manifest = list[dict[str, Any]]
DEADLINE_S = 300.0
#: Refusals that say "not now": what a client is told to come back for.
LATER = {"busy", "host_unreachable", "agent_lost", "unavailable", "wake_timeout"}


@dataclass
class Soaked:
    stack: Stack
    client: httpx.Client
    workspace_id: str
    tree: Manifest = field(default_factory=list)
    points: dict[str, Manifest] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"/api/v1/workspaces/{self.workspace_id}"

    def call(self, method: str, path: str, **more: Any) -> Any:
        """The JSON answer. A refusal that says when to come back is come back for, as the contract asks."""
        def asked() -> Any:
            try:
                answer = self.client.request(method, path, **more)
            except httpx.TransportError:
                return None
            if answer.status_code >= 400 and answer.json().get("code") in LATER:
                return None
            assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text}"
            return answer.json() if answer.content else True
        return until(asked, f"{method} {path} is answered", DEADLINE_S)

    # -- the tree ----------------------------------------------------------------------------------------------------

    def run(self, *arguments: str) -> str:
        """A command in the workspace, which wakes it; its output."""
        record = self.call("POST", f"{self.url}/execs", json={
            "command": ["python3", "-c", SCRIPT, *arguments], "user": "root", "max_output_bytes": 32 << 20,
            "wait_s": 120})
        record = until(lambda: self._ended(record), "the exec ends", DEADLINE_S)
        assert record["outcome"] == {"kind": "exited", "code": 0}, record
        return str(record["stdout"])

    def _ended(self, record: dict[str, Any]) -> dict[str, Any] | None:
        now: dict[str, Any] = record if record["state"] == "ended" else self.call(
            "GET", f"{self.url}/execs/{record['id']}?wait_s=30")
        return now if now["state"] == "ended" else None

    def change(self, seed: int) -> None:
        self.tree = _rows(self.run(TREE, str(seed)))

    def check(self, after: str) -> None:
        """Every path, type, mode, owner, attribute and byte."""
        assert_equal(_rows(self.run(TREE)), self.tree, after)

    # -- deeds -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return self.call("GET", self.url)

    def wait_for(self, *states: str) -> dict[str, Any]:
        def there() -> Any:
            now = self.state()
            assert now["state"] != "failed" or "failed" in states, now
            return now if now["state"] in states else None
        return until(there, f"the workspace is {' or '.join(states)}", DEADLINE_S)

    def sleep(self) -> None:
        """Standby where the host can keep memory; where it cannot, the refusal names it and a stop does."""
        answer = self.client.post(f"{self.url}/standby?wait=true&timeout_s=120", json={})
        if answer.status_code == 409:
            self.stop()
            return
        assert answer.status_code < 300, answer.text
        self.wait_for("standby", "stopped")

    def stop(self) -> None:
        self.call("POST", f"{self.url}/stop?wait=true&timeout_s=120", json={})
        self.wait_for("stopped")

    def checkpoint(self) -> str:
        made = self.call("POST", f"{self.url}/checkpoints?wait=true&timeout_s=120", json={})
        path = f"{self.url}/checkpoints/{made['id']}"

        def ready() -> Any:
            now = self.call("GET", path)
            assert now["state"] != "failed", now
            return now["state"] == "ready"
        until(ready, "the checkpoint is ready", DEADLINE_S)
        self.points[made["id"]] = self.tree
        return str(made["id"])

    def restore(self, checkpoint_id: str) -> str:
        """Answers the safety checkpoint, which undoes it."""
        here, there = self.tree, self.points[checkpoint_id]
        said = self.call("POST", f"{self.url}/checkpoints/{checkpoint_id}/restore?wait=true&timeout_s=120", json={})
        self.tree = there
        self.wait_for("running", "stopped", "standby")
        self.points[said["safety_checkpoint"]] = here
        return str(said["safety_checkpoint"])

    def fork(self, name: str) -> None:
        """The fork has the same tree, is somebody else, and goes."""
        made = self.call("POST", f"{self.url}/fork?wait=true&timeout_s=120", json={"name": name})["results"][0]
        fork = Soaked(self.stack, self.client, made["id"], self.tree)
        fork.check("fork")
        fork.call("DELETE", f"{fork.url}?purge=true&wait=true")
        self.check("a fork that went")

    def compare(self, before: str, after: str) -> None:
        """The diff says what the two manifests say, no less and no more."""
        said: dict[str, str] = {}
        path = f"{self.url}/checkpoints/{before}/diff?against={after}&limit=7"
        while path:
            page = self.call("GET", path)
            said.update({row["path_encoded"]: row["change"] for row in page["results"]})
            path = page["next"]
        below = {name: change for name, change in said.items() if name.startswith(f"{TREE}/")}
        assert below == changes(self.points[before], self.points[after]), (before, after)

    def look(self, checkpoint_id: str) -> None:
        """Read without a wake: each file's content as the checkpoint's manifest has it."""
        files = [row for row in self.points[checkpoint_id] if row["type"] == "file"]
        for row in files[:3]:
            path = quote_from_bytes(TREE.encode() + b"/" + base64.b64decode(row["path"]))
            answer = self.client.get(f"{self.url}/checkpoints/{checkpoint_id}/files/content?path={path}")
            assert answer.status_code == 200, answer.text
            assert hashlib.sha256(answer.content).hexdigest() == row["sha256"], row

    def kill_body(self) -> None:
        """kill -9 of the machine itself: dead is said, and a start is the way out."""
        noted = self.stack.data / "host" / "machines" / self.workspace_id / "driver" / "body.json"
        os.kill(int(json.loads(noted.read_text())["pid"]), signal.SIGKILL)
        self.wait_for("failed", "stopped")
        self.call("POST", f"{self.url}/start?wait=true&timeout_s=120", json={})
        self.wait_for("running")


def changes(before: Manifest, after: Manifest) -> dict[str, str]:
    """Path → change, as the contract words it."""
    old, new = ({row["path"]: row for row in rows} for rows in (before, after))
    found: dict[str, str] = {}
    for path in {*old, *new}:
        name = quote_from_bytes(TREE.encode() + b"/" + base64.b64decode(path), safe="/")
        if path not in old or path not in new:
            found[name] = "added" if path not in old else "removed"
        elif old[path]["type"] != new[path]["type"]:
            found[name] = "type"
        elif old[path] != new[path]:
            found[name] = "modified"
    return found


def _rows(text: str) -> Manifest:
    return [json.loads(line) for line in text.splitlines()]


def assert_equal(now: Manifest, should: Manifest, after: str) -> None:
    """Names the first rows that differ: a soak's log must say what was lost."""
    if now == should:
        return
    there, wanted = ({row["path"]: row for row in rows} for rows in (now, should))
    wrong = [(there.get(path), wanted.get(path)) for path in sorted({*there, *wanted})
             if there.get(path) != wanted.get(path)]
    raise AssertionError(f"after {after}: {len(wrong)} paths differ, first (is, should be): {wrong[:3]}")
