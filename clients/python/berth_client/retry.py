"""When something is asked again, and after how long. Pure: the hands sleep and send, this decides.

A request is asked again only where that cannot do it twice: it never arrived, or it is repeatable (a read, a value
set, a POST with its key). Delays grow, are jittered so that many clients do not come back in one second, and are
never shorter than the server asked for; when the time is over, the last error is the answer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from berth_client import problems
from berth_client.problems import BadAnswer, BerthError, Problem, StreamBroken, Unreachable
from berth_client.wire import Answer, Request, Sleep, Step, Steps

T = TypeVar("T")
#: What passes by itself. `no_capacity` and `gpu_unavailable` are facts for the caller to act on.
PASSING = frozenset({"unavailable", "host_unreachable", "agent_lost", "wake_timeout", "workspace_waking"})
#: Refused before anything was done, so even what is not repeatable may come again.
REFUSED_UNSEEN = frozenset({"rate_limited"})
GATEWAYS = frozenset({502, 503, 504})


@dataclass(frozen=True)
class Retry:
    """`total_s` bounds the time from the first failure on; 0 never asks again."""

    total_s: float = 60.0
    first_s: float = 0.25
    longest_s: float = 10.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    chance: Callable[[], float] = field(default=random.random, repr=False)

    def again(self) -> Again:
        return Again(self)


class Again:
    """The failures in a row of one act."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._failures = 0
        self._since: float | None = None

    def went_well(self) -> None:
        self._failures, self._since = 0, None

    def delay_s(self, error: BerthError, repeatable: bool = True) -> float:
        """How long to wait before the next try. Raises the error when there is none."""
        if not may_repeat(error, repeatable):
            raise error
        now = self._retry.clock()
        self._since = now if self._since is None else self._since
        most = min(self._retry.longest_s, self._retry.first_s * 2 ** min(self._failures, 16))
        self._failures += 1
        wait: float = max(asked_for_s(error), most * (0.5 + self._retry.chance() / 2))
        if now + wait - self._since > self._retry.total_s:
            raise error
        return wait


def may_repeat(error: BerthError, repeatable: bool) -> bool:
    if isinstance(error, Unreachable):
        return repeatable or not error.sent
    if isinstance(error, BadAnswer):
        return repeatable and error.status in GATEWAYS
    if isinstance(error, Problem):
        return error.code in REFUSED_UNSEEN or (repeatable and error.code in PASSING)
    return False


def asked_for_s(error: BerthError) -> float:
    return getattr(error, "retry_after_s", None) or 0.0


def with_retries(steps: Steps[T], retry: Retry) -> Generator[Step, Answer | Unreachable, T]:
    """An act whose requests are asked again where they may be. The hand sends in an answer, or that none came."""
    said: Answer | None = None
    refused: BerthError | None = None
    while True:
        try:
            step = steps.throw(refused) if refused is not None else (next(steps) if said is None else steps.send(said))
        except StopIteration as done:
            result: T = done.value
            return result
        said, refused = None, None
        if isinstance(step, Sleep):
            yield step
            said = SLEPT
            continue
        try:
            said = yield from _asked(step, retry)
        except BerthError as error:
            refused = error


SLEPT = Answer(0, {})


def _asked(request: Request, retry: Retry) -> Generator[Step, Answer | Unreachable, Answer]:
    again = retry.again()
    while True:
        result = yield request
        error: BerthError | None = result if isinstance(result, Unreachable) else refusal(result)
        if error is None:
            assert isinstance(result, Answer)
            return result
        yield Sleep(again.delay_s(error, request.repeatable))


def refusal(answer: Answer) -> BerthError | None:
    """The exception that an answer stands for; None for a good one."""
    if answer.status < 400:
        return None if answer.status < 300 or answer.status == 304 else BadAnswer(
            answer.status, "This address leads elsewhere; name the one it leads to.")
    after_s = retry_after_s(answer.headers)
    if "problem+json" not in answer.headers.get("content-type", ""):
        return BadAnswer(answer.status, "Not an answer of Berth's", after_s)
    try:
        return problems.problem(answer.status, answer.json(), after_s)
    except BadAnswer:
        return StreamBroken("A refusal broke off in the middle.")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    said = headers.get("retry-after", "")
    return float(said) if said.isascii() and said.isdigit() and len(said) < 6 else None
