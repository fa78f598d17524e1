"""The gateway's end of hostd: a pool of connections, one try after another while hostd restarts.

Called by execs, files, metrics and terminals. Calls hostd over its Unix socket (docs/interfaces.md section 2;
`host` will name other machines once there are some). Turns what goes wrong on the way into a `Problem`;
knows nothing of workspaces, only machine ids.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from workspaces.api.errors import STATUS, Problem
from workspaces.gateway.config import Config

T = TypeVar("T")

CONNECT_S = 5.0
ERROR_BODY_BYTES = 64 * 1024


@dataclass(frozen=True)
class Call:
    """One request to hostd. `repeatable`: doing it twice is doing it once, so it may be sent again."""

    method: str
    path: str                       # below /v1/machines/
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] | None = None
    repeatable: bool = False
    longest_s: float | None = 60.0  # until the answer begins; None for as long as it takes

    @property
    def url(self) -> URL:
        target = f"http://hostd/v1/machines/{self.path}"
        return URL(f"{target}?{self.query}" if self.query else target, encoded=True)


class Hostd:
    def __init__(self, config: Config) -> None:
        self._patience_s = config.limits.host_patience_s
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path=str(config.host_socket), limit=0, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, read_bufsize=256 * 1024,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def close(self) -> None:
        await self._session.close()

    async def send(self, call: Call) -> aiohttp.ClientResponse:
        """hostd's answer, begun; the caller releases it. Raises `Problem` for whatever is not one.

        An unreachable hostd is tried again while it restarts, as long as nothing can have been done twice.
        """
        return await self._patiently(lambda: self._once(call), call.repeatable)

    async def _patiently(self, once: Callable[[], Awaitable[T]], repeatable: bool) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        pause_s = 0.05
        while True:
            try:
                return await once()
            except aiohttp.ClientConnectorError:
                pass  # nothing was sent
            except (aiohttp.ClientConnectionError, ConnectionError):
                if not repeatable:
                    raise unreachable("The host broke off; whether it acted is not known.") from None
            except aiohttp.ClientError as error:
                raise unreachable(f"The host answered nonsense ({type(error).__name__}).") from None
            if loop.time() + pause_s > deadline:
                raise unreachable() from None
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, pause_s * 2)

    async def _once(self, call: Call) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(call.longest_s):
                response = await self._session.request(
                    call.method, call.url, data=call.body, headers=call.headers, allow_redirects=False)
        except TimeoutError:
            raise unreachable("The host did not answer in time.") from None
        if response.status < 400:
            return response
        raise await problem_of(response)

    async def json(self, call: Call) -> tuple[int, Any]:
        """(status, value) of an answer that is JSON and of a moderate size."""
        response = await self.send(call)
        try:
            return response.status, json.loads(await response.read())
        except (aiohttp.ClientError, ConnectionError, ValueError) as error:
            raise unreachable(f"The host's answer broke off ({type(error).__name__}).") from None
        finally:
            response.release()

    async def up(self, machine_id: str, wait_s: float) -> bool:
        """Whether the machine runs, waiting a while for it."""
        call = Call("GET", f"{machine_id}/up", f"wait_s={wait_s:g}", repeatable=True)
        return bool((await self.json(call))[1].get("running"))

    async def terminal(self, path: str, query: str, headers: dict[str, str]) -> aiohttp.ClientWebSocketResponse:
        """A terminal's socket, opened; opening it twice is no harm."""
        call = Call("GET", path, query, headers, repeatable=True)
        return await self._patiently(lambda: self._open(call), repeatable=True)

    async def _open(self, call: Call) -> aiohttp.ClientWebSocketResponse:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._session.ws_connect(call.url, headers=call.headers, max_msg_size=0, compress=0)
        except TimeoutError:
            raise unreachable("The host did not answer in time.") from None
        except aiohttp.WSServerHandshakeError as error:
            refused = error.status
        (await self._once(call)).release()  # the same GET without the upgrade says why, and raises it
        raise unreachable(f"The host refused the terminal ({refused}).")


def unreachable(detail: str = "The host does not answer.") -> Problem:
    return Problem("host_unreachable", detail, retry_after_s=2)


async def problem_of(response: aiohttp.ClientResponse) -> Problem:
    """hostd's `{"code","detail",…}` as a `Problem`. A body that is no such thing is hostd's fault, not the caller's."""
    try:
        if response.method == "HEAD":
            return Problem(response.headers.get("Berth-Code") or _code_of_status(response.status))
        value = json.loads(await at_most(response.content, ERROR_BODY_BYTES))
        code = value.pop("code")
        for reserved in ("type", "title", "status", "allow"):  # these words are ours, the last is even a header
            value.pop(reserved, None)
        if isinstance(value.get("errors"), dict):
            value["errors"] = {k: v if isinstance(v, list) else [str(v)] for k, v in value["errors"].items()}
        return Problem(code if code in STATUS else "internal", str(value.pop("detail", "")), **value)
    except (aiohttp.ClientError, ConnectionError, ValueError, KeyError, AttributeError, TypeError):
        return unreachable(f"The host answered {response.status} without saying why.")
    finally:
        done_with(response)


def done_with(response: aiohttp.ClientResponse) -> None:
    """Back to the pool when it was read to its end; a connection with something left on it is closed."""
    if response.content.at_eof():
        response.release()
    else:
        response.close()


async def at_most(content: aiohttp.StreamReader, most_bytes: int) -> bytes:
    """The whole of a small body; one that goes on is cut there."""
    pieces, total = [], 0
    while total < most_bytes:
        piece = await content.read(most_bytes - total)
        if not piece:
            break
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)


def _code_of_status(status: int) -> str:
    """A HEAD's refusal has no body: the status has to do."""
    return {400: "invalid", 403: "permission_denied", 404: "file_not_found", 412: "precondition_failed",
            416: "range_not_satisfiable"}.get(status, "host_unreachable")
