"""Reads an exec's output as it comes, in the order it came, until the end. Called by `stream.py` and `terminal.py`.

A reader reads files: while it waits for a slow client nothing gathers anywhere. A reader whose place in a terminal's
tail is gone is moved forward to what is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from sandboxes.host.execs import Execs

PIECE_BYTES = 32 * 1024


class Follower:
    """`offset` counts bytes of both streams together. One client's place in one exec's output."""

    def __init__(self, execs: Execs, exec_id: str, offset: int) -> None:
        self._execs, self.exec_id, self.offset = execs, exec_id, offset

    async def pieces(self) -> AsyncGenerator[tuple[int, int, bytes], None]:
        """(tag, offset, bytes). Ends when the exec has ended and all of its output was given."""
        running = self._execs.running.get(self.exec_id)
        if running is not None:
            with running.bell() as bell:
                while not running.ended.done():
                    bell.clear()
                    self.offset = max(self.offset, running.tape.start)
                    tag, data = running.tape.read_in_order(self.offset, PIECE_BYTES)
                    if data:
                        yield tag, self._move(len(data)), data
                    else:
                        await bell.wait()
        async for piece in self._rest():
            yield piece

    async def _rest(self) -> AsyncGenerator[tuple[int, int, bytes], None]:
        with self._execs.opened(self._execs.record(self.exec_id)) as tape:
            self.offset = max(self.offset, tape.start)
            while data := (found := tape.read_in_order(self.offset, PIECE_BYTES))[1]:
                yield found[0], self._move(len(data)), data
                await asyncio.sleep(0)  # an ended exec's output never waits for a bell: let others run

    def _move(self, length: int) -> int:
        at, self.offset = self.offset, self.offset + length
        return at
