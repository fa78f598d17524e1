"""Facts that walk up: an append-only, bounded file of JSON lines that readers follow with a long poll.

Called by operations, watch, execs and files (`append`) and by the HTTP handler of `/v1/feed` (`read`). It never
knows who reads. A fact may be lost only together with the host; a reader behind what is kept is told `gap`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from pathlib import Path
from typing import Any

from sandboxes.errors import DiskFull
from sandboxes.host import durable, log
from sandboxes.host.clock import now_text

SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENTS_KEPT = 4
BATCH = 500
REMEMBERED = 4096

Fact = dict[str, Any]


class Feed:
    """Segments are named by the first number in them: `feed-00000000000000000001.jsonl`."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._recent: deque[Fact] = deque(maxlen=REMEMBERED)
        self._unwritten: deque[Fact] = deque(maxlen=REMEMBERED)
        self._waiters: set[asyncio.Future[None]] = set()
        self._descriptor = -1
        self._size = 0
        self.seq = 0

    def open(self) -> None:
        """Goes on where a former hostd stopped; a half-written last line is cut off."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        segments = self._segments()
        if segments:
            self._load(segments)
        self._use(segments[-1] if segments else self._segment_at(1))

    def _load(self, segments: list[Path]) -> None:
        self.seq = int(segments[-1].stem.removeprefix("feed-")) - 1
        for segment in segments[-2:]:
            for fact in _facts_in(segment):
                self._recent.append(fact)
                self.seq = max(self.seq, int(fact["seq"]))

    def _use(self, path: Path) -> None:
        self.close()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._descriptor, whole)
        self._size = whole

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def append(self, kind: str, machine_id: str, generation: int, actor: dict[str, str] | None,
               data: dict[str, Any]) -> None:
        """Numbers the fact, writes it, wakes the readers. With a full disk it stays in memory and is written later."""
        self.seq += 1
        fact = {"seq": self.seq, "at": now_text(), "kind": kind, "machine_id": machine_id,
                "generation": generation, "actor": actor, "data": data}
        self._recent.append(fact)
        self._unwritten.append(fact)
        try:
            self._write()
        except (DiskFull, OSError) as error:
            log.failure("feed.not_written", error, seq=self.seq)
        self.wake()

    def wake(self) -> None:
        """Readers that wait look again; on the way out they get an empty answer."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _write(self) -> None:
        if self._size >= self._segment_bytes:
            with durable.space_matters("the feed"):
                self._use(self._segment_at(int(self._unwritten[0]["seq"])))
            for old in self._segments()[:-SEGMENTS_KEPT]:
                old.unlink(missing_ok=True)
        lines = "".join(json.dumps(fact, separators=(",", ":")) + "\n" for fact in self._unwritten).encode()
        durable.append_all(self._descriptor, lines, self._size, "the feed")
        self._size += len(lines)
        self._unwritten.clear()

    async def read(self, after: int, wait_s: float) -> dict[str, Any]:
        """Facts numbered above `after`, at once or when the first comes within `wait_s`."""
        if after == self.seq and wait_s > 0:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            await asyncio.wait({waiter}, timeout=wait_s)
            self._waiters.discard(waiter)
        if after > self.seq:  # another life of this host's state: the reader's number means nothing here
            return {"facts": [], "next": self.seq, "gap": True}
        facts = self._since(after)
        gap = (bool(facts) and facts[0]["seq"] != after + 1) or (not facts and after < self.seq)
        reply = {"facts": facts, "next": facts[-1]["seq"] if facts else self.seq}
        return {**reply, "gap": True} if gap else reply

    def _since(self, after: int) -> list[Fact]:
        if self._recent and self._recent[0]["seq"] <= after + 1:
            start = after + 1 - int(self._recent[0]["seq"])
            return list(self._recent)[start:start + BATCH]
        found: list[Fact] = []
        segments = self._segments()
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            if following is not None and int(following.stem.removeprefix("feed-")) <= after + 1:
                continue
            found.extend(fact for fact in _facts_in(segment) if fact["seq"] > after)
            if len(found) >= BATCH:
                break
        return found[:BATCH]

    def _segments(self) -> list[Path]:
        return sorted(self._folder.glob("feed-*.jsonl"))

    def _segment_at(self, seq: int) -> Path:
        return self._folder / f"feed-{seq:020d}.jsonl"


def _facts_in(segment: Path) -> list[Fact]:
    """What follows the last newline was never finished. A line that is none of ours is a gap, as a lost one is."""
    lines = segment.read_bytes().split(b"\n")[:-1]
    return [fact for text in lines if (fact := _fact(text)) is not None]


def _fact(text: bytes) -> Fact | None:
    try:
        fact = json.loads(text)
    except ValueError:
        return None
    return fact if isinstance(fact, dict) and isinstance(fact.get("seq"), int) else None
