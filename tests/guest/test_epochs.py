"""A machine that has seen an epoch answers to no older one. A module of its own: the machine never forgets."""

from __future__ import annotations

import pytest

from sandboxes.errors import StaleGeneration
from sandboxes.guest.link import GuestLink
from tests.guest.guest import Guest


async def test_an_older_epoch_is_refused_by_name(guest: Guest):
    async with guest.another_link(epoch=5) as newer:
        await newer.link.request("resume", {"epoch": 5, "unix_time_ns": 1, "entropy_b64": ""})
    with pytest.raises(StaleGeneration):
        await GuestLink.open(guest.socket, 4, timeout_s=5)
    with pytest.raises(StaleGeneration):
        async with guest.another_link(epoch=6) as newest:
            await newest.link.request("resume", {"epoch": 4})
    async with guest.another_link(epoch=6) as newest:
        assert await newest.link.request("ping") == {}
