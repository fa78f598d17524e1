"""The standard input of one exec: bytes from `exec.stdin` streams, in order of arrival, into its pipe or terminal.

Made by `exectable.py`. What the process does not read yet waits here, bounded by the streams' windows; a stream is
answered once all of its bytes are in the pipe. When input closes, a stream whose bytes were all taken is no failure:
it fails only with the next byte (an `exit` that was typed did arrive, though the shell was gone before we could say).
"""

from __future__ import annotations

import os
from collections import deque

from sandboxes.guest.agent.loop import OUT, Loop
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream
from sandboxes.guest.agent.tty import END_OF_FILE


class Feed:
    """One `exec.stdin` stream."""

    def __init__(self, stdin: Stdin, stream: Stream, eof: bool) -> None:
        self.stream, self.eof = stream, eof
        self.accepted = 0
        self.ended = False
        stream.on_data = lambda _tag, data: stdin.take(self, data)
        stream.on_eof = lambda: stdin.take_end(self)
        stream.on_cancel = lambda: stdin.leave(self)

    def fail(self, code: str, detail: str) -> None:
        self.stream.fail(Refusal(code, detail, accepted_bytes=self.accepted))


class Stdin:
    def __init__(self, loop: Loop, fd: int, terminal: bool) -> None:
        os.set_blocking(fd, False)
        self._loop, self._fd, self._terminal = loop, fd, terminal
        self._queue: deque[tuple[Feed, bytes | None]] = deque()
        self._feeds: list[Feed] = []
        self._over = ("stdin_closed", "standard input is closed")

    @property
    def open(self) -> bool:
        return self._fd >= 0

    def feed(self, stream: Stream, eof: bool) -> None:
        """Serves one stream. Raises Refusal when nobody reads any more."""
        if not self.open:
            raise Refusal(*self._over, accepted_bytes=0)
        self._feeds.append(Feed(self, stream, eof))

    def take(self, feed: Feed, data: bytes) -> None:
        if self.open:
            self._queue.append((feed, data))
            self._pump()
        elif data:
            feed.fail(*self._over)

    def take_end(self, feed: Feed) -> None:
        if self.open:
            self._queue.append((feed, None))
            self._pump()
        else:
            feed.stream.finish({"accepted_bytes": feed.accepted})

    def leave(self, feed: Feed) -> None:
        """The host gave a stream up: what has not been written of it never is."""
        if feed in self._feeds:
            self._feeds.remove(feed)
        self._queue = deque(item for item in self._queue if item[0] is not feed)

    def process_ended(self) -> None:
        self._close("exec_ended", "the process has ended")

    def _pump(self) -> None:
        while self._queue and self.open:
            feed, data = self._queue.popleft()
            if data is None:
                self._end_of(feed)
            elif not self._write(feed, data):
                break
        if self.open and not self._queue:
            self._loop.unwatch(self._fd)

    def _write(self, feed: Feed, data: bytes) -> bool:
        """False when the pipe is full or gone."""
        try:
            count = os.write(self._fd, data)
        except BlockingIOError:
            count = 0
        except OSError:
            self._queue.appendleft((feed, data))
            self._close("stdin_closed", "the process closed its standard input")
            return False
        feed.accepted += count
        feed.stream.consumed(count)
        if count < len(data):
            self._queue.appendleft((feed, data[count:]))
            self._loop.watch(self._fd, OUT, lambda _events: self._pump())
            return False
        return True

    def _end_of(self, feed: Feed) -> None:
        if feed.eof and self._terminal:
            feed.eof = False
            self._queue.appendleft((feed, None))
            self._queue.appendleft((feed, END_OF_FILE))
            return
        self._feeds.remove(feed)
        feed.stream.finish({"accepted_bytes": feed.accepted})
        if feed.eof:
            self._close("stdin_closed", "standard input is closed")

    def _close(self, code: str, detail: str) -> None:
        if not self.open:
            return
        self._over = (code, detail)
        self._loop.unwatch(self._fd)
        os.close(self._fd)
        self._fd = -1
        cut_off = {feed for feed, data in self._queue if data}
        for feed in cut_off:
            feed.fail(code, detail)
        for feed in {feed for feed, data in self._queue if data is None} - cut_off:
            feed.stream.finish({"accepted_bytes": feed.accepted})
        self._queue.clear()
        self._feeds.clear()
