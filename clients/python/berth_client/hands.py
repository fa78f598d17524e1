"""The hand that waits: carries out what acts yield, with httpx. Called by `act`; `hands_async` is its twin.

It sends, sleeps and reads, and decides nothing: `retry` says what is asked again, the acts what an answer means.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


class Opened:
    """An answer whose body is read in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status, self.headers = response.status_code, response.headers

    def pieces(self) -> Iterator[bytes]:
        with breaks_named():
            yield from self._response.iter_raw()


class SyncHand:
    def __init__(self, link: Link) -> None:
        self.link = link
        self._http = httpx.Client(headers=link.headers(), limits=LIMITS, **link.options)

    def run(self, steps: Steps[T]) -> T:
        work = with_retries(steps, self.link.retry)
        try:
            step = next(work)
            while True:
                step = work.send(self._do(step))
        except StopIteration as done:
            result: T = done.value
            return result

    def items(self, pages: Pages[T]) -> Iterator[T]:
        request: Request | None = pages.request
        while request is not None:
            found, request = self.run(pages.page(request))
            yield from found

    def send(self, request: Request, pieces: Iterable[bytes] | None = None) -> Answer:
        """One try, its body streamed where pieces are given. Raises Unreachable."""
        how = arguments(self.link, request)
        with failures_named():
            return answer_of(self._http.request(**(how if pieces is None else {**how, "content": pieces})))

    @contextmanager
    def open(self, request: Request) -> Iterator[Opened]:
        """A good answer that has begun. Raises what it is instead."""
        how = self._http.build_request(**arguments(self.link, request))
        with failures_named():
            response = self._http.send(how, stream=True)
        try:
            if response.status_code >= 300:
                with breaks_named():
                    response.read()
                good(answer_of(response))
            yield Opened(response)
        finally:
            response.close()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._http.close()

    def _do(self, step: Step) -> Answer | Unreachable:
        if isinstance(step, Sleep):
            self.sleep(step.seconds)
            return Answer(0, {})
        try:
            return self.send(step)
        except Unreachable as error:
            return error
