"""One stream as the agent sees it: what the host opened with a method, and what goes back.

Made by `session.py` for each OPEN frame; used by the calls. It counts credit both ways and never blocks: output is
*pulled* from a stream when the link has room (`produce`), input is handed over as it comes and credit returns when the
call says that it consumed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sandboxes.guest import protocol as wire
from sandboxes.guest.agent.refusal import Refusal

if TYPE_CHECKING:
    from sandboxes.guest.agent.session import Session

Produce = Callable[[int], "tuple[int, bytes] | None"]


class Stream:
    """`head`, `finish`, `fail` speak to the host; `on_*` are set by the call that serves the stream."""

    __slots__ = ("_owed", "_produce", "_window", "credit", "id", "method", "on_cancel", "on_credit", "on_data",
                 "on_eof", "over", "session")

    def __init__(self, session: Session, stream_id: int, method: str) -> None:
        self.session, self.id, self.method = session, stream_id, method
        self.credit = wire.WINDOW_BYTES
        self.over = False
        self.on_data: Callable[[int, bytes], None] | None = None
        self.on_eof: Callable[[], None] | None = None
        self.on_credit: Callable[[int], None] | None = None
        self.on_cancel: Callable[[], None] | None = None
        self._produce: Produce | None = None
        self._owed = 0
        self._window = wire.WINDOW_BYTES

    # -- towards the host ------------------------------------------------------------------------------------------

    def head(self, body: dict[str, Any]) -> None:
        if not self.over:
            self.session.post_message(wire.HEAD, self.id, body)

    def pull_from(self, produce: Produce) -> None:
        """The link asks `produce(max_bytes)` for a chunk whenever it has room; None says nothing now."""
        self._produce = produce
        self.more()

    def more(self) -> None:
        """There is something to pull (again)."""
        if not self.over and self._produce is not None:
            self.session.make_ready(self)

    def eof(self) -> None:
        """No more bytes from here; the host may go on sending. Only with nothing left to pull."""
        if not self.over:
            self.session.post_eof(self.id)

    def finish(self, result: dict[str, Any]) -> None:
        """The one result, behind everything that was pulled."""
        if not self.over:
            self.session.post_message(wire.RESULT, self.id, result)
            self.session.end(self)

    def fail(self, refusal: Refusal) -> None:
        if not self.over:
            self.session.post_message(wire.ERROR, self.id, refusal.to_json())
            self.session.end(self)

    def consumed(self, count: int) -> None:
        """So many bytes of input are done with; the host may send as many again."""
        self._owed += count
        if not self.over and self._owed >= wire.WINDOW_BYTES // 4:
            self.session.post_credit(self.id, self._owed)
            self._window += self._owed
            self._owed = 0

    # -- from the link ---------------------------------------------------------------------------------------------

    def may_take(self, count: int) -> bool:
        """Counts what comes. False for what the host was given no credit for: it would wait here without bound."""
        self._window -= count
        return self._window >= 0

    def next_chunk(self, most: int) -> tuple[int, bytes] | None:
        most = min(most, self.credit)
        if most <= 0 or self._produce is None or self.over:
            return None
        chunk = self._produce(most)
        if chunk is not None:
            self.credit -= len(chunk[1])
        return chunk

    def take_credit(self, count: int) -> None:
        self.credit += count
        if self.on_credit is not None:
            self.on_credit(count)
        self.more()

    def cancel(self) -> None:
        """The host wants no more of it, or is gone."""
        self.over = True
        if self.on_cancel is not None:
            self.on_cancel()
