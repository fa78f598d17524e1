"""One definition of each call for two kinds of caller: who waits, and who awaits.

An act is written once, as a generator of requests (`wire.Steps`). On a class of `Waiting` it is an ordinary method
that returns the result; on a class of `Awaiting` the same method returns an awaitable of it. Type checkers see the
right one of both. `pages` does so for lists: an iterator here, an async iterator there.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import parse_qsl, urlsplit

from berth_client.wire import Json, Request, Steps

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list: where it begins, what its items are. `key` is where the answer holds them."""

    request: Request
    read: Callable[[Any], T]
    key: str = "results"

    def page(self, request: Request) -> Steps[tuple[list[T], Request | None]]:
        """One page, and the request for the next."""
        answer = (yield request).json()
        return [self.read(one) for one in answer.get(self.key) or []], self._next(answer)

    def _next(self, answer: Json) -> Request | None:
        """`next` names a URL; only its query is taken, so a token never goes where a server points."""
        said = answer.get("next")
        if not said:
            return None
        query = parse_qsl(urlsplit(said).query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
        return replace(self.request, query=tuple(query))


class Hand(Protocol):
    def run(self, steps: Steps[T]) -> T: ...
    def items(self, pages: Pages[T]) -> Iterator[T]: ...


class AsyncHand(Protocol):
    async def run(self, steps: Steps[T]) -> T: ...
    def items(self, pages: Pages[T]) -> AsyncIterator[T]: ...


class Place:
    """Where acts are of: the path they begin with."""

    def __init__(self, hand: Any, at: str) -> None:
        self._hand = hand
        self._at = at


class Waiting(Place):
    """Its acts return."""


class Awaiting(Place):
    """Its acts are awaited."""


class act(Generic[P, T]):
    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        functools.update_wrapper(self, steps)  # type: ignore[arg-type]  # it is called only through `__get__`

    @overload
    def __get__(self, instance: None, owner: Any) -> act[P, T]: ...
    @overload
    def __get__(self, instance: Waiting, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Awaiting, owner: Any) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, instance: Place | None, owner: Any) -> Any:
        if instance is None:
            return self

        @functools.wraps(self.steps)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            return instance._hand.run(self.steps(instance, *args, **kwargs))
        return bound


class pages(Generic[P, T]):
    def __init__(self, begin: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self.begin = begin
        functools.update_wrapper(self, begin)  # type: ignore[arg-type]

    @overload
    def __get__(self, instance: None, owner: Any) -> pages[P, T]: ...
    @overload
    def __get__(self, instance: Waiting, owner: Any) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: Awaiting, owner: Any) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, instance: Place | None, owner: Any) -> Any:
        if instance is None:
            return self

        @functools.wraps(self.begin)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            return instance._hand.items(self.begin(instance, *args, **kwargs))
        return bound
