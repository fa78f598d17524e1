"""The hand that awaits: `hands`, word for word, in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx

from berth_client.act import Pages
from berth_client.problems import Unreachable
from berth_client.retry import with_retries
from berth_client.sent import (
    LIMITS,
    Link,
    answer_of,
    arguments,
    breaks_named,
    failures_named,
    good,
)
from berth_client.wire import Answer, Request, Sleep, Step, Steps

T = TypeVar("T")


class AsyncOpened:
    """An answer whose body is read in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status, self.headers = response.status_code, response.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        with breaks_named():
            async for piece in self._response.aiter_raw():
                yield piece


class AsyncHand:
    def __init__(self, link: Link) -> None:
        self.link = link
        self._http = httpx.AsyncClient(headers=link.headers(), limits=LIMITS, **link.options)

    async def run(self, steps: Steps[T]) -> T:
        work = with_retries(steps, self.link.retry)
        try:
            step = next(work)
            while True:
                step = work.send(await self._do(step))
        except StopIteration as done:
            result: T = done.value
            return result

    async def items(self, pages: Pages[T]) -> AsyncIterator[T]:
        request: Request | None = pages.request
        while request is not None:
            found, request = await self.run(pages.page(request))
            for one in found:
                yield one

    async def send(self, request: Request, pieces: AsyncIterable[bytes] | None = None) -> Answer:
        """One try, its body streamed where pieces are given. Raises Unreachable."""
        how = arguments(self.link, request)
        with failures_named():
            return answer_of(await self._http.request(**(how if pieces is None else {**how, "content": pieces})))

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[AsyncOpened]:
        """A good answer that has begun. Raises what it is instead."""
        how = self._http.build_request(**arguments(self.link, request))
        with failures_named():
            response = await self._http.send(how, stream=True)
        try:
            if response.status_code >= 300:
                with breaks_named():
                    await response.aread()
                good(answer_of(response))
            yield AsyncOpened(response)
        finally:
            await response.aclose()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._http.aclose()

    async def _do(self, step: Step) -> Answer | Unreachable:
        if isinstance(step, Sleep):
            await self.sleep(step.seconds)
            return Answer(0, {})
        try:
            return await self.send(step)
        except Unreachable as error:
            return error
