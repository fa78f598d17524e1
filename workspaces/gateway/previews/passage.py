"""One HTTP request to the program behind a preview, and its answer back. Called by `front`; calls `reach` and `http1`.

    visitor ── pieces ──▶ inward  ──▶ raw ──▶ program      each piece is handed on before the next is read, so the
    visitor ◀─ pieces ─── outward ◀── raw ◀── program      slower end sets the pace, both ways at the same time

The program may answer before it heard all: the answer passes at once, and the rest of the question is thrown away for a
moment so that the visitor gets to read it. A question without a body may ride on a kept connection; it is asked once
more on a fresh one when the program was just ending that one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from workspaces.api.errors import Problem
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import ClientGone, Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.previews import http1, rewriting
from workspaces.gateway.previews.entry import Visit, target_of
from workspaces.gateway.previews.http1 import Answer
from workspaces.gateway.previews.pool import Key
from workspaces.gateway.previews.reach import CAUSE, connect
from workspaces.gateway.previews.rewriting import Outside
from workspaces.gateway.previews.standing import Standing
from workspaces.gateway.rawhost import Raw
from workspaces.gateway.relay import BrokenOff

TWICE = frozenset({"GET", "HEAD", "OPTIONS"})
#: For a program that does not say 100 Continue: then its body is sent without.
CONTINUE_S = 1.0
LINGER_S = 1.0


async def forward(gate: Gate, exchange: Exchange, outside: Outside, visit: Visit, *, person: bool) -> None:
    passage = Passage(gate, exchange, outside, visit, person)
    with gate.preview_requests.one_of(visit.holder):
        async with Standing(gate, exchange, outside, visit):
            if exchange.has_body:
                await passage.with_body()
            else:
                await passage.plain()


class Passage:
    def __init__(self, gate: Gate, exchange: Exchange, outside: Outside, visit: Visit, person: bool) -> None:
        self._gate, self._exchange, self._outside, self._visit = gate, exchange, outside, visit
        self._person = person
        self._key: Key = (visit.place.workspace_id, visit.place.generation, outside.name.port)
        self._moved_at = time.monotonic()
        self._may_send, self._sent = asyncio.Event(), asyncio.Event()
        self._given = False  # the connection, to whoever asks next

    # -- a question without a body ---------------------------------------------------------------------------------

    async def plain(self) -> None:
        async with Departure(self._exchange.receive):
            raw = self._kept()
            if raw is not None and await self._asked(raw, fresh=False):
                return
            await self._asked(await self._connect(), fresh=True)

    def _kept(self) -> Raw | None:
        usable = self._exchange.method in TWICE and self._visit.place.state == "running"
        return self._gate.previews_kept.take(self._key) if usable else None

    async def _asked(self, raw: Raw, *, fresh: bool) -> bool:
        """False: this connection was over before a byte of an answer came."""
        answer = Answer(raw, self._exchange.method)
        try:
            self._gate.activity.happened(self._visit.place.workspace_id, CAUSE)
            try:
                await raw.write(self._head())
                await self._headed(answer)
            except (Problem, ConnectionError, OSError) as error:
                if not fresh and not answer.heard and getattr(error, "code", "guest_reset") == "guest_reset":
                    return False
                raise _broke(error) from None
            self._sent.set()
            await self._out(raw, answer)
            return True
        finally:
            if not self._given:
                raw.close()

    # -- one with a body -------------------------------------------------------------------------------------------

    async def with_body(self) -> None:
        raw = await self._connect()
        self._exchange.body_touched = True  # what is not read of it ends the visitor's connection
        self._gate.activity.happened(self._visit.place.workspace_id, CAUSE)
        tasks = [asyncio.ensure_future(work) for work in (self._outward(raw), self._inward(raw))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            first = tasks[0] if tasks[0] in done else tasks[1]
            first.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raw.close()

    async def _outward(self, raw: Raw) -> None:
        answer = Answer(raw, self._exchange.method)
        try:
            await raw.write(self._head())
        except (ConnectionError, OSError) as error:
            raise _broke(error) from None
        if not self._expects:
            self._may_send.set()
        await self._headed(answer)
        await self._out(raw, answer)

    async def _inward(self, raw: Raw) -> None:
        """The visitor's body into the program; then listens until the visitor goes. A program that hears no more is
        no end: its answer may be on the way."""
        await _wait(self._may_send, CONTINUE_S if self._expects else None)
        chunked, deaf = self._exchange.declared_length is None, False
        async for piece in self._exchange.pieces(self._gate.config.limits.upload_idle_s):
            self._moved_at = time.monotonic()
            self._gate.activity.happened(self._visit.place.workspace_id, CAUSE)
            deaf = deaf or not await _took(raw, http1.chunk(piece) if chunked else piece)
        if chunked and not deaf:
            await _took(raw, http1.LAST_CHUNK)
        self._moved_at = time.monotonic()
        self._sent.set()
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        raise ClientGone

    @property
    def _expects(self) -> bool:
        return (self._exchange.header(b"expect") or "").lower() == "100-continue"

    # -- both ------------------------------------------------------------------------------------------------------

    async def _connect(self) -> Raw:
        return await connect(self._gate, self._visit, self._outside.name.port, person=self._person)

    def _head(self) -> bytes:
        exchange = self._exchange
        headers = rewriting.for_guest(exchange.scope["headers"], self._outside)
        length = exchange.header(b"content-length")
        if length is not None:
            headers.append((b"content-length", length.encode("latin-1")))
        elif exchange.has_body:
            headers.append((b"transfer-encoding", b"chunked"))
        if exchange.has_body and self._expects:
            headers.append((b"expect", b"100-continue"))
        return http1.head(exchange.method, target_of(exchange), headers)

    async def _headed(self, answer: Answer) -> None:
        """Until the answer's head is there, or nothing moved for too long."""
        longest = self._gate.config.limits.preview_answer_s
        while not answer.headed:
            left = longest - (time.monotonic() - self._moved_at)
            if left <= 0:
                raise Problem("preview_timeout", f"Nothing came for {longest:g} s.")
            try:
                async with asyncio.timeout(left):
                    await answer.more()
            except TimeoutError:
                continue
            if answer.continued:
                self._may_send.set()

    async def _out(self, raw: Raw, answer: Answer) -> None:
        asked = self._exchange.header(b"origin") or ""
        headers = rewriting.for_visitor(answer.headers, self._outside, asked, answer.status)
        try:
            await self._exchange.begin(answer.status, headers)
        except ValueError:
            raise Problem("guest_reset", "Its headers are none.") from None
        try:
            async for piece in answer.body():
                await self._exchange.write(piece)
        except (ConnectionError, OSError) as error:
            raise BrokenOff(f"preview: {error}") from None
        if self._may_send.is_set() and not self._sent.is_set():
            await _wait(self._sent, LINGER_S)
        if answer.keeps and not self._exchange.has_body:
            self._given = True
            self._gate.previews_kept.give(self._key, raw)
        await self._exchange.write(b"", more=False)


async def _took(raw: Raw, data: bytes) -> bool:
    try:
        await raw.write(data)
    except (ConnectionError, OSError):
        return False
    return True


async def _wait(event: asyncio.Event, longest_s: float | None) -> None:
    try:
        async with asyncio.timeout(longest_s):
            await event.wait()
    except TimeoutError:
        pass


def _broke(error: Any) -> Problem:
    return error if isinstance(error, Problem) else Problem("guest_reset", "It broke off before it answered.")
