"""Threads that serve file calls with the user's rights, while the loop goes on. Called by `filecalls.py`.

A thread talks to the loop by `Job`: it sends bytes into the stream (waiting while the link is slow) and takes bytes
from it (waiting while the host is slow), so a slow host holds one thread and its few kilobytes, nothing else.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from sandboxes.guest.agent.accounts import Account
from sandboxes.guest.agent.credentials import acting_as
from sandboxes.guest.agent.loop import Loop
from sandboxes.guest.agent.refusal import Refusal, refusal_of
from sandboxes.guest.agent.streams import Stream

MOST_THREADS = 48
#: Of these, so many may be held by streams: a host that reads none of them still gets its listings.
MOST_STREAMS = 32
#: Those have a thread of their own, for they may last for days.
MOST_WATCHES = 24
IDLE_S = 30.0
QUEUED_BYTES = 64 * 1024
STACK_BYTES = 512 * 1024


class Gone(Exception):
    """The stream is over: the host cancelled it or is lost."""


class Job:
    """One call in a thread. `work(job)` returns the result; what it raises becomes the stream's error."""

    def __init__(self, loop: Loop, stream: Stream, account: Account, work: Callable[[Job], dict[str, Any]],
                 what: str) -> None:
        self._loop, self._stream, self.account, self._work, self._what = loop, stream, account, work, what
        self._changed = threading.Condition()
        self._out: deque[tuple[int, bytes]] = deque()
        self._out_bytes = 0
        self._in: deque[bytes | None] = deque()
        self._end: Callable[[], None] | None = None
        #: Called in the loop when nobody waits any more: for a thread that waits for something else than the stream.
        self.on_gone: Callable[[], None] | None = None
        stream.on_cancel = self._notify
        stream.on_data = lambda _tag, data: self._take(data)
        stream.on_eof = lambda: self._take(None)

    # -- in the thread ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            with acting_as(self.account):
                result = self._work(self)
            self._settle(lambda: self._stream.finish(result))
        except Gone:
            pass
        except Refusal as refusal:
            self._fail(refusal)
        except OSError as error:
            self._fail(refusal_of(error, self._what))
        except Exception as error:
            import traceback
            traceback.print_exc(file=sys.stderr)
            self._fail(Refusal("internal", f"{self._what}: {type(error).__name__}: {error}"))

    def head(self, body: dict[str, Any]) -> None:
        self._loop.post(lambda: self._stream.head(body))

    def send(self, data: bytes) -> None:
        """At most a frame's worth at a time goes out; waits while QUEUED_BYTES are unsent."""
        with self._changed:
            while self._out_bytes >= QUEUED_BYTES and not self._stream.over:
                self._changed.wait()
            if self._stream.over:
                raise Gone
            self._out.append((0, data))
            self._out_bytes += len(data)
        self._loop.post(self._pull)

    def receive(self) -> bytes | None:
        """The next bytes from the host; None after the last. Raises Gone when it will never come."""
        with self._changed:
            while not self._in and not self._stream.over:
                self._changed.wait()
            if not self._in:
                raise Gone
            data = self._in.popleft()
        if data:
            self._loop.post(lambda: self._stream.consumed(len(data)))
        return data

    def check(self) -> None:
        """Raises Gone when nobody waits any more. For long work that neither sends nor receives."""
        if self._stream.over:
            raise Gone

    # -- in the loop -----------------------------------------------------------------------------------------------

    def _take(self, data: bytes | None) -> None:
        with self._changed:
            self._in.append(data)
            self._changed.notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
        if self.on_gone is not None:
            self.on_gone()

    def _pull(self) -> None:
        self._stream.pull_from(self._produce)

    def _produce(self, most: int) -> tuple[int, bytes] | None:
        with self._changed:
            if not self._out:
                if self._end is not None:
                    self._end()
                return None
            tag, data = self._out.popleft()
            if len(data) > most:
                self._out.appendleft((tag, data[most:]))
                data = data[:most]
            self._out_bytes -= len(data)
            self._changed.notify()
            return tag, data

    def _fail(self, refusal: Refusal) -> None:
        self._settle(lambda: self._stream.fail(refusal))

    def _settle(self, end: Callable[[], None]) -> None:
        """Ends the stream behind what is still queued."""
        def settle() -> None:
            self._end = end
            if self._out:
                self._pull()
            else:
                end()
        self._loop.post(settle)


class Workers:
    """As many threads as there is work, up to MOST_THREADS; idle ones go away."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Job, bool]] = deque()
        self._threads = self._idle = self._streams = self._watches = 0
        threading.stack_size(STACK_BYTES)

    def submit(self, job: Job, streaming: bool) -> None:
        """Raises Refusal("busy") when too many streams are open already."""
        with self._changed:
            if streaming and self._streams >= MOST_STREAMS:
                raise Refusal("busy", f"{MOST_STREAMS} file streams are open already", retry_after_s=1)
            self._streams += streaming
            self._jobs.append((job, streaming))
            if len(self._jobs) <= self._idle:
                self._changed.notify()
            elif self._threads < MOST_THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, daemon=True).start()

    def submit_apart(self, job: Job) -> None:
        """For a call without an end. Raises Refusal("busy") when there are too many."""
        with self._changed:
            if self._watches >= MOST_WATCHES:
                raise Refusal("busy", f"{MOST_WATCHES} watches are open already", retry_after_s=5)
            self._watches += 1
        threading.Thread(target=self._serve_apart, args=(job,), daemon=True).start()

    def _serve_apart(self, job: Job) -> None:
        try:
            job.run()
        finally:
            with self._changed:
                self._watches -= 1

    def _serve(self) -> None:
        try:
            while (taken := self._next()) is not None:
                job, streaming = taken
                try:
                    job.run()
                finally:
                    with self._changed:
                        self._streams -= streaming
        finally:
            with self._changed:
                self._threads -= 1

    def _next(self) -> tuple[Job, bool] | None:
        with self._changed:
            self._idle += 1
            try:
                while not self._jobs:
                    if not self._changed.wait(IDLE_S):
                        return None
                return self._jobs.popleft()
            finally:
                self._idle -= 1
