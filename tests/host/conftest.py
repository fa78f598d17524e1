"""Fixtures of hostd's tests: `hostd` is a process of its own per module, `machine` a running machine on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.host.client import Hostd, running_hostd


@pytest_asyncio.fixture
async def hostd() -> AsyncIterator[Hostd]:
    async with running_hostd() as running:
        yield running


@pytest_asyncio.fixture
async def machine(hostd: Hostd) -> str:
    return await hostd.machine()
