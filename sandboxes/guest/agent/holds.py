"""Holds: what in the guest asks that the machine not be put to rest, with a reason and an end. Asked by `berth-hold`.

Made by `agent.py`, which gives it a Unix socket that every user of the guest may connect to. One line of JSON comes,
one goes back. A hold ends when its time is up, when it is released, or, asked for with `attached`, when the connection
that asked for it closes. What they are worth is the host's to decide.

    {"hold": reason, "ttl_s": s, "attached": bool} ─▶ {"id"}      {"release": id} ─▶ {}      {"list": true} ─▶ {"holds"}
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.guest.agent.loop import HUP, IN, Loop, Timer

SOCKET = "/run/berth-hold/socket"
MOST_HOLDS = 64
MOST_ASKING = 32
LINE_BYTES = 4096
REASON_CHARACTERS = 200
DEFAULT_TTL_S, MOST_TTL_S = 3600.0, 7 * 86_400.0
#: For who connects and says nothing.
SILENCE_S = 10.0


class Hold(NamedTuple):
    reason: str
    ends: float
    timer: Timer

    def to_json(self, hold_id: str) -> dict[str, Any]:
        """The end by the guest's own wall clock."""
        return {"id": hold_id, "reason": self.reason, "expires_at": time.time() + self.ends - time.monotonic()}


class Refused(Exception):
    """Said back to who asked."""


class Holds:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._holds: dict[str, Hold] = {}
        self._asking = 0

    def serve(self, path: str) -> None:
        """Listens there; everybody may connect."""
        place = Path(path)
        place.parent.mkdir(mode=0o755, exist_ok=True)
        place.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(path)
        place.chmod(0o666)
        listener.listen(16)
        self._loop.watch(listener.fileno(), IN, lambda _events: self._accept(listener))

    def listing(self) -> list[dict[str, Any]]:
        return [hold.to_json(hold_id) for hold_id, hold in self._holds.items()]

    def _accept(self, listener: socket.socket) -> None:
        try:
            conn, _ = listener.accept()
        except OSError:
            return
        if self._asking >= MOST_ASKING:
            conn.close()
            return
        self._asking += 1
        _Asking(self, self._loop, conn)

    def done_asking(self) -> None:
        self._asking -= 1

    # -- what is asked ---------------------------------------------------------------------------------------------

    def answer(self, asked: Any) -> dict[str, Any]:
        if not isinstance(asked, dict):
            raise Refused("one JSON object, please")
        if "hold" in asked:
            return {"id": self._hold(asked["hold"], asked.get("ttl_s") or DEFAULT_TTL_S)}
        if "release" in asked:
            self.release(str(asked["release"]))
            return {}
        return {"holds": self.listing()}

    def _hold(self, reason: Any, ttl_s: Any) -> str:
        if not isinstance(reason, str) or not reason.strip():
            raise Refused("a hold needs a reason")
        if not isinstance(ttl_s, int | float) or not 0 < ttl_s <= MOST_TTL_S:
            raise Refused(f"ttl must be more than 0 and at most {MOST_TTL_S:.0f} seconds")
        if len(self._holds) >= MOST_HOLDS:
            raise Refused("there are too many holds")
        hold_id = os.urandom(6).hex()
        timer = self._loop.after(ttl_s, lambda: self.release(hold_id))
        self._holds[hold_id] = Hold(reason.strip()[:REASON_CHARACTERS], time.monotonic() + ttl_s, timer)
        return hold_id

    def release(self, hold_id: str) -> None:
        """Not there: done."""
        hold = self._holds.pop(hold_id, None)
        if hold is not None:
            hold.timer.cancel()


class _Asking:
    """One connection: a line in, a line out; then it is closed, or kept for as long as an attached hold lasts."""

    def __init__(self, holds: Holds, loop: Loop, conn: socket.socket) -> None:
        self._holds, self._loop, self._conn = holds, loop, conn
        self._line = b""
        self._hold_id = ""
        conn.setblocking(False)
        self._silence = loop.after(SILENCE_S, self._close)
        loop.watch(conn.fileno(), IN | HUP, lambda _events: self._read())

    def _read(self) -> None:
        try:
            data = self._conn.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._line) > LINE_BYTES:
            self._close()
            return
        self._line += data
        if b"\n" in self._line:
            self._reply()

    def _reply(self) -> None:
        self._silence.cancel()
        line, self._line = self._line, b""
        attached = False
        try:
            asked = json.loads(line.partition(b"\n")[0])
            said = self._holds.answer(asked)
            attached = bool(asked.get("attached")) and "id" in said
        except Refused as refused:
            said = {"error": str(refused)}
        except ValueError:
            said = {"error": "that is not JSON"}
        self._send(said)
        if attached:
            self._hold_id = said["id"]
        else:
            self._close()

    def _send(self, said: dict[str, Any]) -> None:
        """A short line fits into an empty socket; whoever does not read it does not get it."""
        try:
            self._conn.send(json.dumps(said).encode() + b"\n")
        except OSError:
            return

    def _close(self) -> None:
        if self._conn.fileno() < 0:
            return
        self._silence.cancel()
        self._loop.unwatch(self._conn.fileno())
        self._conn.close()
        self._holds.done_asking()
        if self._hold_id:
            self._holds.release(self._hold_id)
