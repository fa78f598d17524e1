"""How often one may ask: by token, by person, by address; 429 says when to come; a fast loop is not hurt."""

from __future__ import annotations

from dataclasses import replace

import aiohttp
import pytest

from tests.gateway.conftest import ANNA, AUTH, WID, Rig
from workspaces.api.errors import Problem
from workspaces.gateway.config import Limits
from workspaces.gateway.rates import PERSON, Buckets, Rates

ME, EXECS = "/api/v1/me", f"/api/v1/workspaces/{WID}/execs"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_then_its_rate_and_says_when_to_come() -> None:
    clock = Clock()
    bucket = Buckets(2, 3, clock)
    for _ in range(3):
        bucket.take("a")
    bucket.take("b")
    with pytest.raises(Problem) as refused:
        bucket.take("a")
    assert refused.value.extra["retry_after_s"] >= 0.5
    clock.now += 0.5
    bucket.take("a")
    with pytest.raises(Problem):
        bucket.take("a")
    clock.now += 1000
    for _ in range(3):
        bucket.take("a")
    with pytest.raises(Problem):
        bucket.take("a")


def test_no_rate_is_no_bound() -> None:
    bucket = Buckets(0, 1)
    for _ in range(100):
        bucket.take("a")


def test_a_token_is_bounded_before_its_person_and_the_person_before_all_their_tokens() -> None:
    rates = Rates(replace(Limits(), rate_per_token_s=1e-6, rate_burst_per_token=2))
    for n in range(PERSON):
        for _ in range(2):
            rates.known(replace(ANNA, token_id=str(n)))
        with pytest.raises(Problem):
            rates.known(replace(ANNA, token_id=str(n)))
    with pytest.raises(Problem):
        rates.known(replace(ANNA, token_id="fresh"))
    rates.known(replace(ANNA, token_id="other", user_id=2))


async def test_beyond_the_bound_is_429_with_retry_after_on_json_and_on_bytes_alike(with_limits) -> None:
    for path in (ME, EXECS):
        async with (with_limits(rate_per_token_s=0.01, rate_burst_per_token=3) as rig,
                    aiohttp.ClientSession(rig.url, headers=AUTH) as session):
            for _ in range(3):
                async with session.get(path) as reply:
                    assert reply.status == 200
            async with session.get(path) as reply:
                said = await reply.json(content_type=None)
            assert (reply.status, said["code"]) == (429, "rate_limited")
            assert int(reply.headers["Retry-After"]) >= 1


async def test_a_stranger_is_bounded_by_address_and_a_known_token_from_there_is_not_held_for_it(with_limits) -> None:
    async with (with_limits(rate_per_address_s=0.01, rate_burst_per_address=3) as rig,
                aiohttp.ClientSession(rig.url) as session):
        async with session.get(EXECS, headers=AUTH) as reply:
            assert reply.status == 200
        statuses = []
        for n in range(5):
            async with session.get(EXECS, headers={"Authorization": f"Bearer berth_guess{n}"}) as reply:
                statuses.append(reply.status)
        assert statuses == [401, 401, 401, 429, 429]
        reads = rig.books.reads
        async with session.get(EXECS, headers={"Authorization": "Bearer berth_more"}) as reply:
            assert reply.status == 429
        assert rig.books.reads == reads, "a guess beyond the bound costs no look-up"
        async with session.get("/sign-in") as reply:
            assert reply.status == 429
        async with session.get(EXECS, headers=AUTH) as reply:
            assert reply.status == 200


async def test_a_thousand_requests_in_a_row_are_within_the_defaults(rig: Rig) -> None:
    limits = Limits()
    rates = Rates(limits)
    for _ in range(1000):
        rates.known(ANNA)
    assert limits.rate_burst_per_token >= 1000 and limits.rate_per_token_s >= 100
