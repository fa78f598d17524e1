"""`attach`: mounts the root disk, pivots into it, and starts the user's world. Called through the method table.

On a host (`--fake`) there is nothing to mount: the fake driver has prepared the agent's mount namespace, and attach
only says that the machine serves from now on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandboxes.guest.agent import params as p
from sandboxes.guest.agent.machine import ATTACHED, Machine
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream


class Attach:
    """`enter(params)` makes the root file system ours; it is a no-op on a host."""

    def __init__(self, machine: Machine, enter: Callable[[p.Params], None]) -> None:
        self._machine, self._enter = machine, enter

    def __call__(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        environment = p.mapping(params, "env")
        if self._machine.state != ATTACHED:
            try:
                self._enter(params)
            except OSError as error:
                where = error.filename2 or error.filename or ""
                raise Refusal("step_failed", f"attach: {where}: {error.strerror}") from error
        if self._machine.state != ATTACHED or environment != self._machine.environment:
            self._machine.attached(environment)
        return {}
