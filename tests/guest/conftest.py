"""One machine of the fake driver for all tests of a module, a fresh link for each test."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest

from sandboxes.drivers.base import MachineHome
from sandboxes.drivers.fake import FakeDriver
from sandboxes.guest.link import GuestLink
from sandboxes.spec import MachineSpec
from tests.guest.guest import Guest

WORKSPACE_ENV = {"WORKSPACE_SAYS": "hello"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineHome]:
    state = tmp_path_factory.mktemp("guest")
    machine_id = f"g{secrets.token_hex(6)}"
    home = MachineHome(state / "machines" / machine_id)

    async def launch() -> None:
        driver = FakeDriver(state)
        await driver.launch(home, MachineSpec(machine_id, 1), lambda _stage: None)
        await driver.close()

    async def end() -> None:
        driver = FakeDriver(state)
        await driver.destroy(home)
        await driver.close()

    asyncio.run(launch())
    yield home
    asyncio.run(end())
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
async def guest(home: MachineHome) -> AsyncIterator[Guest]:
    """An attached agent. `root` is its disk as the host sees it."""
    socket = home.run / "agent.sock"
    link = await GuestLink.open(socket, 1, timeout_s=30)
    await link.request("attach", {"hostname": "box", "machine_id": "0" * 32, "env": WORKSPACE_ENV, "root": {}})
    yield Guest(socket, link, home.disk / "root")
    await link.close()
