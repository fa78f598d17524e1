"""Facts are numbered without gaps, kept within bounds, waited for, and go on after any death."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandboxes.host import durable
from sandboxes.host.feed import SEGMENTS_KEPT, Feed


def opened(folder: Path, **kwargs: int) -> Feed:
    feed = Feed(folder, **kwargs)
    feed.open()
    return feed


def say(feed: Feed, count: int) -> None:
    for _ in range(count):
        feed.append("machine.running", "m", 1, None, {})


async def test_a_reader_gets_what_came_after_its_number(tmp_path: Path):
    feed = opened(tmp_path)
    say(feed, 5)
    page = await feed.read(3, 0)
    assert [fact["seq"] for fact in page["facts"]] == [4, 5]
    assert page["next"] == 5 and "gap" not in page


async def test_a_waiting_reader_is_woken_by_the_next_fact(tmp_path: Path):
    feed = opened(tmp_path)
    reading = asyncio.create_task(feed.read(0, 300))
    await asyncio.sleep(0)
    say(feed, 1)
    page = await asyncio.wait_for(reading, 60)
    assert [fact["seq"] for fact in page["facts"]] == [1]


async def test_numbers_go_on_after_a_restart_and_a_half_line_counts_for_nothing(tmp_path: Path):
    feed = opened(tmp_path)
    say(feed, 3)
    feed.close()
    segment = next(tmp_path.glob("feed-*.jsonl"))
    segment.write_bytes(segment.read_bytes() + b'{"seq":4,"at":"20')
    feed = opened(tmp_path)
    say(feed, 1)
    assert [fact["seq"] for fact in (await feed.read(0, 0))["facts"]] == [1, 2, 3, 4]
    feed.close()
    assert [fact["seq"] for fact in (await opened(tmp_path).read(0, 0))["facts"]] == [1, 2, 3, 4]


async def test_old_facts_go_and_a_reader_who_is_behind_them_is_told(tmp_path: Path):
    feed = opened(tmp_path, segment_bytes=1000)
    say(feed, 400)
    feed.close()
    assert len(list(tmp_path.glob("feed-*.jsonl"))) <= SEGMENTS_KEPT
    feed = opened(tmp_path, segment_bytes=1000)
    page = await feed.read(2, 0)
    assert page["gap"] is True and page["facts"][0]["seq"] > 3 and page["next"] == 400
    after = 0
    seen = []
    while facts := (await feed.read(after, 0))["facts"]:
        seen += [fact["seq"] for fact in facts]
        after = seen[-1]
    assert seen == list(range(seen[0], 401))


async def test_a_reader_from_another_life_is_told(tmp_path: Path):
    feed = opened(tmp_path)
    say(feed, 2)
    assert await feed.read(99, 0) == {"facts": [], "next": 2, "gap": True}


async def test_a_full_disk_loses_no_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed = opened(tmp_path)
    real = durable.os.pwrite

    def full(*_args: object) -> int:
        raise OSError(28, "No space left on device")

    say(feed, 1)
    monkeypatch.setattr(durable.os, "pwrite", full)
    say(feed, 2)
    assert [fact["seq"] for fact in (await feed.read(0, 0))["facts"]] == [1, 2, 3]
    monkeypatch.setattr(durable.os, "pwrite", real)
    say(feed, 1)
    feed.close()
    assert [fact["seq"] for fact in (await opened(tmp_path).read(0, 0))["facts"]] == [1, 2, 3, 4]
