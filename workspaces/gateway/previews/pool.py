"""Connections into guests that may carry another question. Used by `passage`; knows no HTTP.

Kept for a moment only, shorter than servers commonly keep theirs, and handed out for what may be asked twice alone:
the program may be ending one while it is taken.
"""

from __future__ import annotations

import asyncio
from collections import deque

from workspaces.gateway.rawhost import Raw

IDLE_S = 3.0
MOST_OF_ONE = 16
MOST = 512
Key = tuple[str, int, int]  # workspace, its generation, port


class Pool:
    def __init__(self) -> None:
        self._kept: dict[Key, deque[tuple[Raw, asyncio.TimerHandle]]] = {}
        self._count = 0

    def take(self, key: Key) -> Raw | None:
        while (kept := self._kept.get(key)) is not None:
            raw, timer = kept.pop()
            timer.cancel()
            self._gone(key)
            if not raw.ended:
                return raw
            raw.close()
        return None

    def give(self, key: Key, raw: Raw) -> None:
        kept = self._kept.setdefault(key, deque())
        if len(kept) >= MOST_OF_ONE or self._count >= MOST or raw.ended:
            if not kept:
                del self._kept[key]
            raw.close()
            return
        timer = asyncio.get_running_loop().call_later(IDLE_S, self._tired, key, raw)
        kept.append((raw, timer))
        self._count += 1

    def _tired(self, key: Key, raw: Raw) -> None:
        kept = self._kept.get(key)
        for entry in kept or ():
            if entry[0] is raw and kept is not None:
                kept.remove(entry)
                self._gone(key)
                raw.close()
                return

    def _gone(self, key: Key) -> None:
        self._count -= 1
        if not self._kept[key]:
            del self._kept[key]

    def close(self) -> None:
        for kept in self._kept.values():
            for raw, timer in kept:
                timer.cancel()
                raw.close()
        self._kept.clear()
        self._count = 0
