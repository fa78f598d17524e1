"""A request and its answer as plain values: what the acts yield and the hands carry out. Pure.

Made by `acts`, judged by `retry`, sent by `hands` and `hands_async`. Paths in a guest are bytes: text goes out as
UTF-8 (surrogate escapes as the bytes they stand for), bytes as they are, percent-encoded both.
"""

from __future__ import annotations

import json as jsons
import os
import uuid
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote_from_bytes

from berth_client.problems import BadAnswer

T = TypeVar("T")
Json = dict[str, Any]
#: What a query may hold; None is left out.
Value = str | bytes | int | float | bool | None
#: A path in a guest: text, or any bytes that the guest's file system takes.
GuestPath = str | bytes
API = "/api/v1"
READ_S = 60.0
#: How much longer than the server was asked to wait its answer is waited for.
SLACK_S = 30.0


@dataclass(frozen=True)
class Request:
    """`repeatable`: sent twice it has the effect of once, so a lost answer may be asked for again."""

    method: str
    path: str
    query: tuple[tuple[str, str | bytes], ...] = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    repeatable: bool = True
    read_timeout_s: float = READ_S

    @property
    def target(self) -> str:
        if not self.query:
            return self.path
        return f"{self.path}?" + "&".join(f"{name}={encoded(value)}" for name, value in self.query)


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Json:
        try:
            value = jsons.loads(self.body)
        except ValueError:
            raise BadAnswer(self.status, "The answer is not JSON; is this Berth's address?") from None
        if not isinstance(value, dict):
            raise BadAnswer(self.status, "The answer is not a JSON object; is this Berth's address?")
        return value


Step = Request | Sleep
#: One act: yields what is to be done, is sent good answers (a refusal is thrown in), returns what the caller gets.
Steps = Generator[Step, Answer, T]


def sleep(seconds: float) -> Steps[None]:
    yield Sleep(seconds)


def get(path: str, /, *, read_timeout_s: float = READ_S, **query: Value) -> Request:
    return Request("GET", path, queried(query), read_timeout_s=read_timeout_s)


def delete(path: str, /, *, read_timeout_s: float = READ_S, **query: Value) -> Request:
    """To end what has ended already is no error of Berth's, so it may be repeated."""
    return Request("DELETE", path, queried(query), read_timeout_s=read_timeout_s)


def post(path: str, said: Mapping[str, Any] | None = None, /, *, key: str | None = None,
         read_timeout_s: float = READ_S, **query: Value) -> Request:
    """A change that happens once: without a key of the caller's it gets its own, so it may be asked for again."""
    headers = (("Content-Type", "application/json"), ("Idempotency-Key", key or uuid.uuid4().hex))
    return Request("POST", path, queried(query), dumped(said or {}), headers, read_timeout_s=read_timeout_s)


def once(request: Request) -> Request:
    """The same, never asked for a second time: its answer holds what a remembered one does not."""
    headers = tuple(pair for pair in request.headers if pair[0] != "Idempotency-Key")
    return replace(request, headers=headers, repeatable=False)


def put(path: str, said: Mapping[str, Any]) -> Request:
    return Request("PUT", path, (), dumped(said), (("Content-Type", "application/json"),))


def patch(path: str, said: Mapping[str, Any]) -> Request:
    """Sets values, so twice is once."""
    return Request("PATCH", path, (), dumped(said), (("Content-Type", "application/json"),))


def dumped(value: Any) -> bytes:
    return jsons.dumps(value, ensure_ascii=False).encode()


def queried(query: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> tuple[tuple[str, str | bytes], ...]:
    pairs = query.items() if isinstance(query, Mapping) else query
    return tuple((name, _said(value)) for name, value in pairs if value is not None)


def given(**fields: Any) -> Json:
    """The fields that were given; what is None is left to the server."""
    return {name: value for name, value in fields.items() if value is not None}


def encoded(value: str | bytes) -> str:
    return quote_from_bytes(value if isinstance(value, bytes) else os.fsencode(value), safe="/")


def path_fields(path: GuestPath, prefix: str = "path") -> Json:
    """A path in a JSON body: as text where it is text, else exactly."""
    if isinstance(path, str):
        try:
            path.encode()
            return {prefix: path}
        except UnicodeEncodeError:
            pass
    return {f"{prefix}_encoded": encoded(path)}


def _said(value: Value) -> str | bytes:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str | bytes) else str(value)
