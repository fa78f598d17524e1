"""The agent's end of one session: frames in and out, streams by number, and fairness between them.

Called by `port.py` with bytes and asked by it for bytes; calls the method table. At most SEND_AHEAD_BYTES wait to be
written; beyond that nothing is pulled from any stream, so a stalled host costs no memory. Streams with output take
turns, frame by frame; short answers and credit go before them.

While the machine is quiesced, calls that start something or touch files are held with all their frames, and are made
once it has thawed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from sandboxes.guest import protocol as wire
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream

SEND_AHEAD_BYTES = 64 * 1024
#: What one host may hold open, and what its messages may have gathered before their last frames.
MOST_STREAMS = 8192
UNFINISHED_BYTES = 4 * wire.MAX_MESSAGE_BYTES
#: Frames of one call that waits for the thaw; a window of single bytes is more than anybody sends.
MOST_HELD = 65_536
MOST_EPOCH = 2**63 - 1

Method = Callable[[Stream, dict[str, Any]], "dict[str, Any] | None"]


class Session:
    """`methods` maps a name to a call: it returns a result, or None when it will finish the stream itself."""

    def __init__(self, methods: dict[str, Method], info: Callable[[], dict[str, Any]],
                 refuse_epoch: Callable[[int], Refusal | None],
                 must_wait: Callable[[str], bool] = lambda _method: False) -> None:
        self._methods, self._info, self._refuse_epoch, self._must_wait = methods, info, refuse_epoch, must_wait
        self._reader = wire.FrameReader()
        self._joiner = wire.MessageJoiner()
        self._streams: dict[int, Stream] = {}
        #: Calls that wait: their parameters, and the frames that came after.
        self._held: dict[int, tuple[dict[str, Any], list[wire.Frame]]] = {}
        self._number = 0
        self._nonce = ""
        self._urgent: deque[bytes] = deque()
        self._ready: deque[Stream] = deque()
        self._pending = bytearray()

    def announce(self) -> None:
        """Tells a host that still holds a session with this agent's predecessor that it is over: on a virtio port
        nothing else does. A host that is just saying HELLO pays no heed."""
        said = {"nonce": "", "code": "agent_lost", "detail": "the guest agent was started again"}
        self._urgent.extend([wire.PADDING, *wire.encode_message(wire.REFUSE, 0, 0, said)])

    # -- bytes from and to the port --------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._take(frame)

    def fill(self) -> bytearray:
        """What is to be written next, filled up as far as may wait. The port deletes what it wrote."""
        pending = self._pending
        while len(pending) < SEND_AHEAD_BYTES:
            if self._urgent:
                pending += self._urgent.popleft()
            elif self._ready:
                self._pull_one(self._ready.popleft())
            else:
                break
        return pending

    def _pull_one(self, stream: Stream) -> None:
        chunk = stream.next_chunk(wire.MAX_PAYLOAD_BYTES)
        if chunk is None:
            return
        self._pending += wire.encode(wire.DATA, stream.id, self._number, chunk[1], chunk[0])
        # What the call posted meanwhile (its result) belongs behind this chunk, and is: it waits in `_urgent`.
        if not stream.over and stream not in self._ready:
            self._ready.append(stream)

    def lost(self) -> None:
        """The host is gone: every stream is over, half a frame will never be whole."""
        self._end_all()
        self._reader.reset()
        self._number, self._nonce = 0, ""

    # -- what streams use ------------------------------------------------------------------------------------------

    def post_message(self, kind: int, stream: int, body: dict[str, Any]) -> None:
        self._urgent.extend(wire.encode_message(kind, stream, self._number, body))

    def post_credit(self, stream: int, count: int) -> None:
        self._urgent.append(wire.encode_credit(stream, self._number, count))

    def post_eof(self, stream: int) -> None:
        self._urgent.append(wire.encode(wire.EOF, stream, self._number))

    def make_ready(self, stream: Stream) -> None:
        if stream not in self._ready:
            self._ready.append(stream)

    def end(self, stream: Stream) -> None:
        stream.over = True
        self._streams.pop(stream.id, None)
        self._held.pop(stream.id, None)
        self._joiner.forget(stream.id)

    # -- frames ----------------------------------------------------------------------------------------------------

    def _take(self, frame: wire.Frame) -> None:
        if frame.kind == wire.HELLO:
            self._hello(frame)
        elif frame.session != self._number or not self._number:
            return
        elif frame.kind == wire.OPEN:
            self._open(frame)
        elif (stream := self._streams.get(frame.stream)) is not None:
            _, held = self._held.get(stream.id, ({}, []))
            if len(held) >= MOST_HELD or (frame.kind == wire.DATA and not stream.may_take(len(frame.payload))):
                stream.fail(Refusal("invalid", "more than the window has room for"))
                stream.cancel()
            else:
                self._dispatch(stream, frame)

    def _dispatch(self, stream: Stream, frame: wire.Frame) -> None:
        if stream.id in self._held and frame.kind != wire.CANCEL:
            self._held[stream.id][1].append(frame)
        elif frame.kind == wire.DATA and stream.on_data is not None:
            stream.on_data(frame.tag, frame.payload)
        elif frame.kind == wire.EOF and stream.on_eof is not None:
            stream.on_eof()
        elif frame.kind == wire.CREDIT:
            stream.take_credit(wire.decode_credit(frame.payload))
        elif frame.kind == wire.CANCEL:
            self.end(stream)
            stream.cancel()

    def _hello(self, frame: wire.Frame) -> None:
        try:
            body = self._join(frame)
        except ValueError:
            return
        nonce, epoch = (body or {}).get("nonce"), (body or {}).get("epoch")
        if not isinstance(nonce, str) or not nonce or type(epoch) is not int or not 0 <= epoch <= MOST_EPOCH:
            return
        refusal = self._refuse_epoch(epoch)
        if refusal is not None:
            self._urgent.extend(wire.encode_message(wire.REFUSE, 0, 0, {"nonce": nonce, **refusal.to_json()}))
            return
        if nonce != self._nonce:
            self._end_all()
            self._nonce, self._number = nonce, wire.session_number(nonce, epoch)
        else:
            # Said again, so our answer was not understood: perhaps the host waits for the rest of a torn frame.
            self._urgent.append(wire.PADDING)
        self.post_message(wire.WELCOME, 0, {"nonce": nonce, "epoch": epoch, "protocol": wire.GENERATION,
                                            "info": self._info()})

    def _end_all(self) -> None:
        for stream in list(self._streams.values()):
            self.end(stream)
            stream.cancel()
        self._urgent.clear()
        self._ready.clear()
        self._pending.clear()
        self._joiner = wire.MessageJoiner()

    def _open(self, frame: wire.Frame) -> None:
        try:
            body = self._join(frame)
            if body is None or frame.stream in self._streams:
                return
            params = body.get("params") or {}
            if not isinstance(params, dict):
                raise ValueError("params must be an object")
            if len(self._streams) >= MOST_STREAMS:
                raise ValueError(f"{MOST_STREAMS} streams are open already")
        except ValueError as error:
            self.post_message(wire.ERROR, frame.stream, Refusal("invalid", str(error)).to_json())
            return
        stream = Stream(self, frame.stream, str(body.get("method"))[:100])
        self._streams[stream.id] = stream
        if self._must_wait(stream.method):
            self._held[stream.id] = (params, [])
        else:
            self._call(stream, params)

    def _join(self, frame: wire.Frame) -> dict[str, Any] | None:
        """Raises ValueError for a message that cannot be one, and for too much of what never ends."""
        body = self._joiner.add(frame)
        if self._joiner.held_bytes > UNFINISHED_BYTES:
            self._joiner = wire.MessageJoiner()
            raise ValueError("too many unfinished messages")
        return body

    def make_held_calls(self) -> None:
        """In the order in which they came."""
        held, self._held = self._held, {}
        for number, (params, frames) in held.items():
            stream = self._streams.get(number)
            if stream is not None:
                self._call(stream, params)
                for frame in frames:
                    if not stream.over:
                        self._dispatch(stream, frame)

    def _call(self, stream: Stream, params: dict[str, Any]) -> None:
        method = self._methods.get(stream.method)
        try:
            if method is None:
                raise Refusal("invalid", f"this agent does not know {stream.method!r}")
            result = method(stream, params)
            if result is not None:
                stream.finish(result)
        except Refusal as refusal:
            stream.fail(refusal)
        except Exception as error:
            import traceback
            traceback.print_exc(file=sys.stderr)
            stream.fail(Refusal("internal", f"{stream.method}: {type(error).__name__}: {error}"))

