"""A hostd of the tests' own, as a real process over a real socket, and how tests call it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests import forking
from tests.machine_template import lay_into

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
DEADLINE_S = 60.0


def new_id() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(20))


async def eventually(condition: Callable[[], Awaitable[Any]], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """What the condition gives once it is true; fails with `what` when the deadline passes."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        value = await condition()
        if value:
            return value
        assert loop.time() < end, f"never happened: {what}"
        await asyncio.sleep(0.02)


class Answer:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Hostd:
    """`start`, `kill9`, `stop` the process; `call` it; machines by id."""

    def __init__(self, folder: Path, driver: str = "fake", images: Path | None = None) -> None:
        self.folder, self.driver = folder, driver
        self.images = images or folder / "images"
        self.state, self.socket, self.log_file = folder / "state", folder / "h.sock", folder / "log"
        self.env: dict[str, str] = {}
        self.options: tuple[str, ...] = ()
        self.module = "sandboxes.host"
        self.process: forking.Forked | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    async def start(self, deadline_s: float = DEADLINE_S) -> None:
        if self.driver != "fake":
            await asyncio.to_thread(lay_into, self.state, self.images)
        self.process = forking.hostd(self.module, ["--state", str(self.state), "--socket", str(self.socket), "--images",
                                                   str(self.images), "--driver", self.driver, *self.options],
                                     {**os.environ, **self.env}, self.log_file)
        await eventually(self._answers, "hostd answers", deadline_s)

    async def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, f"hostd ended:\n{self.log[-3000:]}"
        with contextlib.suppress(aiohttp.ClientError, OSError):
            return (await self.call("GET", "/v1/feed")).status == 200
        return False

    def kill9(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """As an init system does it: TERM, and it goes by itself."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)

    def rss_bytes(self) -> int:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                base_url="http://hostd",
                connector=aiohttp.UnixConnector(str(self.socket), limit=0),
                timeout=aiohttp.ClientTimeout(total=120),
                auto_decompress=False,
            )
        return self._session

    async def call(self, method: str, path: str, **kwargs: Any) -> Answer:
        from yarl import URL

        url = URL(f"http://hostd{path}", encoded=True)
        async with self.session.request(method, url, **kwargs) as response:
            return Answer(response.status, response.headers, await response.read())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- machines ------------------------------------------------------------------------------------------------------

    async def operate(self, machine_id: str, kind: str, generation: int = 1, **more: Any) -> dict[str, Any]:
        """Starts an operation and waits for its end."""
        operation_id = more.pop("operation_id", None) or new_id()
        begun = await self.call(
            "POST",
            f"/v1/machines/{machine_id}/operations",
            json={"operation_id": operation_id, "kind": kind, "generation": generation, **more},
        )
        assert begun.status == 202, begun.body
        return await self.operation_end(machine_id, operation_id)

    async def operation_end(self, machine_id: str, operation_id: str, deadline_s: float = 300.0) -> dict[str, Any]:
        async def ended() -> Any:
            answer = await self.call("GET", f"/v1/machines/{machine_id}/operations/{operation_id}?wait_s=5")
            return answer.json if answer.json["state"] != "running" else None

        return await eventually(ended, f"operation {operation_id} ends", deadline_s)

    async def machine(self, generation: int = 1, **spec: Any) -> str:
        """A running machine of a new id."""
        machine_id = new_id()
        await self.up(machine_id, generation, **spec)
        return machine_id

    async def up(self, machine_id: str, generation: int = 1, **spec: Any) -> None:
        whole = {"machine_id": machine_id, "generation": generation, **spec}
        for kind in ("create_disk", "boot"):
            operation = await self.operate(machine_id, kind, generation, spec=whole)
            assert operation["state"] == "done", f"{operation}\n{self.log[-3000:]}"

    async def observe(self, machine_id: str) -> dict[str, Any]:
        return (await self.call("GET", f"/v1/machines/{machine_id}")).json

    async def exec(self, machine_id: str, command: Any, query: str = "", **more: Any) -> dict[str, Any]:
        """The record; fails on an error answer."""
        headers = more.pop("headers", None)
        answer = await self.call(
            "POST",
            f"/v1/machines/{machine_id}/execs{query}",
            headers=headers,
            json={"exec_id": new_id(), "command": command, **more},
        )
        assert answer.status in (200, 202), answer.body
        assert (answer.status == 200) == (answer.json["state"] == "ended")
        return answer.json

    async def end_of(self, machine_id: str, exec_id: str, query: str = "") -> dict[str, Any]:
        async def ended() -> Any:
            record = (await self.call("GET", f"/v1/machines/{machine_id}/execs/{exec_id}?wait_s=10{query}")).json
            return record if record["state"] == "ended" else None

        return await eventually(ended, f"exec {exec_id} ends", 120)

    async def facts(self, machine_id: str, kind: str | None = None) -> list[dict[str, Any]]:
        after, found = 0, []
        while True:
            page = (await self.call("GET", f"/v1/feed?after={after}")).json
            if not page["facts"]:
                return [f for f in found if f["machine_id"] == machine_id and kind in (None, f["kind"])]
            found += page["facts"]
            after = page["next"]


def body_pids(hostd: Hostd, machine_id: str) -> list[int]:
    """Processes that carry the fake driver's mark of this machine: its body and all that runs in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f":{machine_id}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return sorted(found)


def kill_body(hostd: Hostd, machine_id: str) -> None:
    """kill -9 of the machine's body as its driver noted it."""
    noted = json.loads((hostd.state / "machines" / machine_id / "driver" / "body.json").read_text())
    os.kill(int(noted["pid"]), signal.SIGKILL)


def new_folder() -> Path:
    """Short: the path of a Unix socket holds 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))


@contextlib.asynccontextmanager
async def running_hostd(
    driver: str = "fake",
    images: Path | None = None,
    folder: Path | None = None,
    log_file: Path | None = None,
    module: str = "sandboxes.host",
    options: tuple[str, ...] = (),
    **env: str,
) -> AsyncIterator[Hostd]:
    """A hostd in a folder of its own; every machine of it is destroyed afterwards."""
    own = folder or new_folder()
    hostd = Hostd(own, driver, images)
    hostd.env, hostd.log_file, hostd.module, hostd.options = env, log_file or hostd.log_file, module, options
    try:
        await hostd.start(600 if driver != "fake" else DEADLINE_S)
        yield hostd
    finally:
        try:
            await clear_away(hostd)
        finally:
            if folder is None:
                shutil.rmtree(own, ignore_errors=True)


async def clear_away(hostd: Hostd) -> None:
    """Destroys every machine and ends the process, whatever the test did to it."""
    try:
        if hostd.process is not None and hostd.process.poll() is not None:
            await hostd.start()
        for machine in (await hostd.call("GET", "/v1/machines")).json["results"]:
            await hostd.operate(machine["machine_id"], "destroy", machine["generation"])
    finally:
        await hostd.close()
        hostd.stop()
