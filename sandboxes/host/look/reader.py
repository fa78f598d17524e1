"""One question to one disk, or to two: starts the process without rights and speaks with it. Called by `routes.py`.

The process is given descriptors and a request on its standard input; it lives as long as its answer. What it says is a
guest's saying: only its form is relied on, sizes are bounded, and it is killed when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandboxes.errors import Busy, FileError
from sandboxes.host.look import mapping
from sandboxes.host.look.mapping import Mapped
from sandboxes.linux import disks
from sandboxes.linux.processes import Talking, talking

PROGRAM = Path(__file__).with_name("inside") / "__main__.py"
ANSWER_S = 90.0
#: The longest JSON answer: 10,000 entries, each with a path and a target of 4 KiB in base64, would be more.
ANSWER_BYTES = 64 << 20
PIECE_BYTES = 256 * 1024
MOST_READERS, MOST_OF_ONE = 24, 6


@dataclass(frozen=True)
class Source:
    """A capture's or a disk's folder: qcow2 layers and `chain.json`, or the plain `root` of a driver without disks."""

    folder: Path
    machine_id: str


class Readers:
    """All that run at once on this host. A client that reads slowly holds one, so none holds them all."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def asked(self, call: str, sources: list[Source], **more: Any) -> AsyncIterator[tuple[Any, Talking]]:
        """The first answer, and the process, from which a content can be read on."""
        who = sources[0].machine_id
        if self._running[who] >= MOST_OF_ONE or self._running.total() >= MOST_READERS:
            raise Busy("too many disks are being looked at", retry_after_s=1.0)
        self._running[who] += 1
        try:
            async with contextlib.AsyncExitStack() as stack:
                mapped = [await _mapped(stack, source) for source in sources]
                request = {"call": call, "trees": [one.request for one in mapped], **more}
                if any("folder" in one.request for one in mapped):
                    request["keep_rights"] = True  # the files are the host's own, and so are their permissions
                process = await stack.enter_async_context(_started(mapped))
                yield await _first(process, request), process
        finally:
            self._running[who] -= 1
            self._running += Counter()  # forgets those at zero

    async def ask(self, call: str, sources: list[Source], **more: Any) -> Any:
        async with self.asked(call, sources, **more) as (answer, _process):
            return answer


async def _mapped(stack: contextlib.AsyncExitStack, source: Source) -> Mapped:
    chain = disks.read_chain(source.folder)
    try:
        if chain is not None:
            made: Mapped = await stack.enter_async_context(mapping.disk(source.folder, chain))
            return made
        return stack.enter_context(mapping.folder(source.folder / "root"))
    except FileNotFoundError as error:
        raise FileError("this disk is not there", code="not_found") from error


def _started(mapped: list[Mapped]) -> contextlib.AbstractAsyncContextManager[Talking]:
    argv = [str(Path(sys.executable).resolve()), "-I", "-S", str(PROGRAM)]
    return talking(argv, pass_fds=sorted({fd for one in mapped for fd in one.fds}))


async def _first(process: Talking, request: dict[str, Any]) -> Any:
    try:
        async with asyncio.timeout(ANSWER_S):
            await process.say(json.dumps(request).encode() + b"\n")
            line = await _line(process)
        said = json.loads(line)
        if "error" not in said:
            return said["ok"]
        code, detail = str(said["error"]["code"]), str(said["error"]["detail"])
    except TimeoutError as error:
        raise FileError("the disk took too long to read", code="disk_unreadable") from error
    except (ValueError, KeyError, TypeError, ConnectionError) as error:
        raise FileError("the disk could not be read", code="disk_unreadable") from error
    raise FileError(detail, code=code)


async def _line(process: Talking) -> bytes:
    """After its answer the process says nothing more until it is asked, so a piece that ends a line ends the answer."""
    parts: list[bytes] = []
    size = 0
    while size <= ANSWER_BYTES:
        part = await process.stdout.read(PIECE_BYTES)
        parts.append(part)
        size += len(part)
        if not part or part.endswith(b"\n"):
            return b"".join(parts)
    raise ValueError("the answer has no end")
