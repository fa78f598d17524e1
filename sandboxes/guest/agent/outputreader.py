"""One `exec.output` stream: sends an exec's outputs from given offsets, and takes credit as acknowledgement.

Made by `execcalls.py`; asked by its stream for chunks. The host gives credit for what it has consumed, in the order
it was sent, so credit says exactly up to which offset of each output the agent may drop.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream

if TYPE_CHECKING:
    from sandboxes.guest.agent.execs import Exec

NAMES = {1: "stdout", 2: "stderr"}


class OutputReader:
    def __init__(self, execution: Exec, stream: Stream, offsets: dict[int, int]) -> None:
        self._exec, self._stream = execution, stream
        for number, offset in offsets.items():
            execution.outputs[number].acknowledge(offset)
        self._at = {number: execution.outputs[number].base for number in NAMES}
        self._sent: deque[list[int]] = deque()
        execution.readers.append(self)
        stream.on_credit = self._credit
        stream.on_cancel = self._leave
        stream.head({"offsets": {NAMES[number]: offset for number, offset in self._at.items()}})
        stream.pull_from(self._produce)
        for number in offsets:
            execution.room_made(number)

    def more(self) -> None:
        self._stream.more()

    def _produce(self, most: int) -> tuple[int, bytes] | None:
        for number, output in self._exec.outputs.items():
            at = max(self._at[number], output.base)
            if data := output.read(at, most):
                self._at[number] = at + len(data)
                self._sent.append([number, at, len(data)])
                return number, data
        if self._exec.outcome is not None:
            self._finish()
        return None

    def _finish(self) -> None:
        self._leave()
        outputs = self._exec.outputs
        self._stream.finish({
            "outcome": self._exec.outcome, "ended_at": self._exec.ended_at,
            "stdout_truncated": outputs[1].truncated, "stderr_truncated": outputs[2].truncated,
        })

    def abandon(self) -> None:
        self._leave()
        self._stream.fail(Refusal("not_found", f"exec {self._exec.exec_id} was forgotten"))

    def _leave(self) -> None:
        if self in self._exec.readers:
            self._exec.readers.remove(self)

    def _credit(self, count: int) -> None:
        while count > 0 and self._sent:
            first = self._sent[0]
            number, taken = first[0], min(count, first[2])
            first[1] += taken
            first[2] -= taken
            count -= taken
            self._exec.outputs[number].acknowledge(first[1])
            self._exec.room_made(number)
            if not first[2]:
                self._sent.popleft()
