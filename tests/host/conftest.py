"""Fixtures of hostd's tests.

`hostd` is a process for one test alone and `machine` a running machine on it: for tests that kill things. `steady` is
(hostd, machine) shared by all tests that leave them as they are.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.host.client import Hostd, clear_away, new_folder, running_hostd


@pytest_asyncio.fixture
async def hostd() -> AsyncIterator[Hostd]:
    async with running_hostd() as running:
        yield running


@pytest_asyncio.fixture
async def machine(hostd: Hostd) -> str:
    return await hostd.machine()


@pytest.fixture(scope="session")
def shared() -> Iterator[tuple[Hostd, str]]:
    """A process and a machine for the whole run. Its client is made anew by each test: loops come and go."""
    hostd = Hostd(new_folder())

    async def begin() -> str:
        await hostd.start()
        machine_id = await hostd.machine()
        await hostd.close()
        return machine_id

    try:
        yield hostd, asyncio.run(begin())
    finally:
        asyncio.run(clear_away(hostd))
        shutil.rmtree(hostd.folder, ignore_errors=True)


@pytest_asyncio.fixture
async def steady(shared: tuple[Hostd, str]) -> AsyncIterator[tuple[Hostd, str]]:
    yield shared
    await shared[0].close()
