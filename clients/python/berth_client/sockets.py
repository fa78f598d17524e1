"""What all WebSockets of the API share: the address, who asks, what a refusal and a close code mean. Pure but for
naming websockets' exceptions.

Used by `streams`, `streams_async`, `terminal` and `tunnel`. websockets writes request headers into its debug log;
the log it is given here never does, because the token is one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from berth_client import problems
from berth_client.problems import BerthError, StreamBroken, Unreachable
from berth_client.retry import refusal
from berth_client.sent import CONNECT_S, Link
from berth_client.wire import Answer

QUIET = logging.getLogger("berth_client.socket")
QUIET.setLevel(logging.INFO)
#: A first call may have to wake the workspace before the socket is accepted.
OPEN_S = 120.0
FRAME_BYTES = 2 * 1024 * 1024
#: close code -> the problem that it stands for; every other one is a connection that broke
CLOSED: dict[int, tuple[int, str, str]] = {
    1009: (413, "too_large", "A frame was too large."),
    4401: (401, "unauthenticated", "The token has ended."),
    4403: (403, "forbidden", "Not allowed any more."),
    4404: (404, "not_found", "It is gone, or not yours any more."),
    4409: (409, "state_conflict", "The workspace cannot run now."),
    4429: (429, "rate_limited", "Too many sockets of yours."),
    4502: (502, "guest_reset", "The program in the guest broke off."),
}


def options(link: Link) -> dict[str, Any]:
    """For `connect`. Compression is off: output is hot, and the token's answers are not to be guessed by length."""
    return {"additional_headers": {"Authorization": f"Bearer {link.token}"}, "logger": QUIET, "compression": None,
            "open_timeout": OPEN_S, "max_size": FRAME_BYTES, "user_agent_header": link.headers()["User-Agent"],
            "close_timeout": CONNECT_S}


@contextmanager
def opening_named() -> Iterator[None]:
    """A refused or failed handshake as this package's exceptions."""
    try:
        yield
    except InvalidStatus as error:
        response = error.response
        headers = {name.lower(): value for name, value in response.headers.raw_items()}
        raise refusal(Answer(response.status_code, headers, bytes(response.body or b""))) or Unreachable(
            str(error)) from error
    except (InvalidHandshake, OSError, TimeoutError, EOFError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}", sent=False) from error


def said_farewell(error: ConnectionClosed) -> bool:
    """The other side had said all there was."""
    return error.rcvd is not None and error.rcvd.code == 1000


def closing(error: ConnectionClosed) -> BerthError:
    """What a closed socket means. `StreamBroken` may be opened again; a problem says why it may not."""
    code = error.rcvd.code if error.rcvd is not None else None
    if code in CLOSED:
        status, word, detail = CLOSED[code]
        return problems.problem(status, {"code": word, "detail": detail})
    return StreamBroken(f"The socket closed ({code or 'no farewell'}).")
