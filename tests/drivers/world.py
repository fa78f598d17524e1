"""A driver under test with its state folder, and a guest one can talk to. Used by every test of this folder."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.drivers import select
from sandboxes.drivers.base import Driver, LiveMachine, MachineHome
from sandboxes.drivers.records import marked_bodies
from sandboxes.guest.link import GuestLink
from sandboxes.linux import netns
from sandboxes.linux.cgroups import Groups
from sandboxes.linux.names import instance_of
from sandboxes.spec import ImageSet, MachineSpec, Shape


def silent(stage: str) -> None:
    """Nobody watches the stages."""


@dataclass
class World:
    kind: str
    state_dir: Path
    images: ImageSet | None
    drivers: list[Driver] = field(default_factory=list)
    links: list[GuestLink] = field(default_factory=list)

    @property
    def instance(self) -> str:
        return instance_of(self.state_dir)

    def driver(self) -> Driver:
        """Another hostd's driver over the same state."""
        self.drivers.append(select(self.kind, self.state_dir, self.images))
        return self.drivers[-1]

    def machine(self, **more: Any) -> tuple[MachineHome, MachineSpec]:
        machine_id = f"m{secrets.token_hex(6)}"
        spec = MachineSpec(machine_id=machine_id, generation=1, hostname="workspace", disk_gib=4, **more)
        return MachineHome(self.state_dir / "machines" / machine_id), spec

    async def guest(self, machine: LiveMachine, epoch: int = 1, *, attach: bool = True) -> Guest:
        link = await GuestLink.open(machine.agent_socket, epoch, timeout_s=60)
        self.links.append(link)
        guest = Guest(link)
        await guest.resume(epoch)
        if attach:
            await guest.attach(epoch)
        return guest

    async def nothing_but(self, *machine_ids: str) -> None:
        """Once no body, namespace, group or user id of this instance is there but these machines'."""
        known = set(machine_ids)
        await until(lambda: set(marked_bodies(self.instance)) == known)
        await until(lambda: netns.machines(self.instance) <= known)
        await until(lambda: Groups(self.instance).machines() <= known)
        uids = self.state_dir / "qemu" / "uids"
        await until(lambda: {path.read_text() for path in uids.glob("*")} <= known)

    async def end(self) -> None:
        for link in self.links:
            await link.close()
        last = self.driver()
        await last.strays(set())
        for path in (self.state_dir / "machines").glob("*"):
            await last.destroy(MachineHome(path))
        for driver in self.drivers:
            await driver.close()


@dataclass
class Guest:
    link: GuestLink

    async def resume(self, epoch: int) -> None:
        await self.link.request("resume", {
            "epoch": epoch, "unix_time_ns": time.time_ns(), "hostname": "workspace",
            "machine_id": secrets.token_hex(16),
            "entropy_b64": base64.b64encode(os.urandom(64)).decode()}, timeout_s=60)

    async def attach(self, epoch: int) -> None:
        await self.link.request("attach", {"hostname": "workspace", "machine_id": secrets.token_hex(16), "env": {},
                                           "root": {}}, timeout_s=90)

    async def start(self, text: str, user: str = "user") -> str:
        exec_id = secrets.token_hex(10)
        await self.link.request("exec.start", {"exec_id": exec_id, "argv": ["/bin/sh", "-c", text], "env": {},
                                               "user": user, "stdin": False}, timeout_s=60)
        return exec_id

    async def run(self, text: str, user: str = "user") -> str:
        """The standard output of a command that must succeed."""
        exec_id = await self.start(text, user)
        stream = await self.link.stream("exec.output", {"exec_id": exec_id, "offsets": {"stdout": 0, "stderr": 0}})
        said = {1: b"", 2: b""}
        async for tag, data in stream:
            said[tag] += data
        ended = await stream.result()
        assert ended["outcome"] == {"kind": "exited", "code": 0}, (ended, said)
        return said[1].decode().strip()

    async def write_text(self, path: str, text: str) -> None:
        await self.run(f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {path}")

    async def write(self, path: str, data: bytes) -> None:
        stream = await self.link.stream("file.write", {"path_b64": b64(path), "user": "user"})
        await stream.write(data)
        await stream.write_eof()
        await stream.result()

    async def read(self, path: str) -> bytes:
        stream = await self.link.stream("file.read", {"path_b64": b64(path), "user": "user", "offset": 0})
        return b"".join([data async for _tag, data in stream])

    async def shut_down(self) -> None:
        with contextlib.suppress(Exception):
            await self.link.request("shutdown", {}, timeout_s=20)


def b64(path: str) -> str:
    return base64.b64encode(path.encode()).decode()


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "never became true"
        await asyncio.sleep(0.05)


TWO_CPUS = Shape(cpus=2, memory_mib=512)
