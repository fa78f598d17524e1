"""What the hot path knows without asking the database: answers kept for seconds, dropped at once when told.

Called by `access` and `wake`; calls a loader (`upstairs`) on a miss. Knows neither HTTP nor Django. A kept
answer lives `ttl_s`, a refusal `negative_ttl_s`; the table is bounded; concurrent misses of one key share
one load. A load that was under way when its table was emptied is answered but not kept: it may be old news.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from workspaces.api.errors import Problem

V = TypeVar("V")
Outcome = tuple[float, V | None, Problem | None]


class Table(Generic[V]):
    def __init__(self, ttl_s: float = 3.0, negative_ttl_s: float = 1.0, size: int = 20_000,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.ttl_s, self.negative_ttl_s, self.size = ttl_s, negative_ttl_s, size
        self._clock = clock
        self._kept: OrderedDict[str, Outcome[V]] = OrderedDict()
        self._loading: dict[str, asyncio.Future[V]] = {}
        self._epoch = 0
        self.loads = 0

    def __len__(self) -> int:
        return len(self._kept)

    def knows(self, key: str) -> bool:
        """Whether a good answer is kept for it."""
        kept = self._kept.get(key)
        return kept is not None and kept[2] is None and kept[0] > self._clock()

    async def get(self, key: str, load: Callable[[], Awaitable[V]]) -> V:
        """The kept answer, or one load shared by everyone who asks meanwhile. Refusals raise, kept or fresh."""
        kept = self._kept.get(key)
        if kept is not None and kept[0] > self._clock():
            if kept[2] is not None:
                raise Problem(kept[2].code, kept[2].detail, **kept[2].extra)
            return kept[1]  # type: ignore[return-value]
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.ensure_future(self._load(key, load))
            self._loading[key] = loading
            loading.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(loading)

    async def _load(self, key: str, load: Callable[[], Awaitable[V]]) -> V:
        epoch = self._epoch
        self.loads += 1
        try:
            value = await load()
        except Problem as problem:
            if problem.status < 500:
                self._keep(key, epoch, self.negative_ttl_s, None, problem)
            raise
        self._keep(key, epoch, self.ttl_s, value, None)
        return value

    def _loaded(self, key: str, done: asyncio.Future[V]) -> None:
        if self._loading.get(key) is done:
            del self._loading[key]
        if not done.cancelled():
            done.exception()  # every waiter may be gone; that is no news

    def _keep(self, key: str, epoch: int, ttl_s: float, value: V | None, problem: Problem | None) -> None:
        if epoch != self._epoch:
            return
        self._kept[key] = (self._clock() + ttl_s, value, problem)
        self._kept.move_to_end(key)
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)

    def drop_all(self) -> None:
        self._epoch += 1
        self._kept.clear()
        self._loading.clear()

    def drop_if(self, matches: Callable[[str, V | None], bool]) -> None:
        self._epoch += 1
        self._loading.clear()
        for key in [k for k, kept in self._kept.items() if matches(k, kept[1])]:
            del self._kept[key]
