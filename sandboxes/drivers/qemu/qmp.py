"""One QMP connection to one QEMU: commands, passed descriptors, and the few events a machine listens to.

Called by the other files of this folder; wraps `qemu.qmp`. Foreign errors end here: what QEMU refuses is StepFailed,
what it no longer answers is NotRunning.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qemu.qmp import EventListener, ExecInterruptedError, ExecuteError, Message, QMPClient, QMPError, StateError

from sandboxes.errors import NotRunning, StepFailed
from sandboxes.linux.sockets import reachable

OnEvent = Callable[[str, dict[str, Any]], None]
WATCHED = ("SHUTDOWN", "BLOCK_IO_ERROR", "STOP", "RESUME")


class Qmp:
    """Connected and negotiated. One per machine at a time: QEMU serves one client on this socket."""

    def __init__(self, client: QMPClient, raw: socket.socket, on_event: OnEvent) -> None:
        self._client = client
        self._raw = raw
        self._lock = asyncio.Lock()
        self._on_event = on_event
        self._listener = EventListener(WATCHED)
        client.register_listener(self._listener)
        self._watch = asyncio.create_task(self._follow(), name="qmp-events")

    @staticmethod
    async def connect(path: Path, on_event: OnEvent, timeout_s: float = 20.0) -> Qmp:
        """The socket listens before QEMU is started, so this waits for QEMU's greeting, not for a file."""
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        client = QMPClient()
        client.logger.setLevel(logging.CRITICAL)
        try:
            async with asyncio.timeout(timeout_s):
                with reachable(path) as name:
                    raw.connect(name)
                kept = raw.dup()
                await client.connect(raw)
        except (OSError, TimeoutError, QMPError, AssertionError) as error:
            # The library asserts that a session it has just begun still stands: QEMU may end in that very moment.
            raw.close()
            with contextlib.suppress(Exception):
                await client.disconnect()
            raise NotRunning(f"QEMU does not answer on its control socket: {error or 'timed out'}") from error
        return Qmp(client, kept, on_event)

    async def execute(self, command: str, arguments: Mapping[str, object] | None = None,
                      timeout_s: float = 60.0) -> Any:
        async with self._lock:
            return await self._execute(command, arguments, timeout_s)

    async def _execute(self, command: str, arguments: Mapping[str, object] | None, timeout_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._client.execute(command, arguments)
        except ExecuteError as error:
            raise StepFailed(f"QEMU refuses {command}: {error}") from error
        except (ExecInterruptedError, StateError, QMPError, OSError) as error:
            raise NotRunning(f"QEMU ended during {command}") from error
        except TimeoutError as error:
            raise StepFailed(f"QEMU did not answer {command} within {timeout_s:g} s") from error

    async def pass_file(self, fd: int, name: str, into: int | None = None) -> tuple[int, str]:
        """Hands a descriptor over, into a set that exists or a new one; answers its number and QEMU's path for it."""
        arguments = {"opaque": name} if into is None else {"opaque": name, "fdset-id": into}
        async with self._lock:
            socket.send_fds(self._raw, [b" "], [fd])
            added = await self._execute("add-fd", arguments, 10.0)
        return added["fdset-id"], f"/dev/fdset/{added['fdset-id']}"

    async def take_back(self, fdset: int) -> None:
        await self.execute("remove-fd", {"fdset-id": fdset})

    async def console(self) -> str:
        """The last the guest's kernel said on its serial console."""
        said = await self.execute("ringbuf-read", {"device": "console", "size": 1 << 20})
        return str(said)

    async def _follow(self) -> None:
        async for message in self._listener:
            event: Message = message
            self._on_event(str(event["event"]), json.loads(json.dumps(event.get("data", {}))))

    async def close(self) -> None:
        self._watch.cancel()
        self._raw.close()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await self._client.disconnect()

