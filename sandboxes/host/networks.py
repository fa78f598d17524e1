"""What each machine may reach, as the control plane last said: kept durably in the record folder of the machine. Called
by `machines` (observation, purge) and `networks_http`; calls `durable`.

A document is there before a body is, and outlives every body. One that cannot be read counts as none: nothing goes out,
and the revision 0 in the observation makes the control plane send it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandboxes.egress import policy as egress
from sandboxes.errors import Invalid
from sandboxes.host import durable, log

FILE = "network.json"


class Networks:
    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of
        self._kept: dict[str, egress.Document] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def of(self, machine_id: str) -> egress.Document:
        """Its document; one that refuses everything where there is none."""
        if machine_id not in self._kept:
            self._kept[machine_id] = self._read(machine_id)
        return self._kept[machine_id]

    async def keep(self, machine_id: str, raw: Any) -> egress.Document:
        """The document that holds now: this one, or a newer one that came first. Raises Invalid or DiskFull."""
        try:
            said = egress.parse_document(raw)
        except egress.Invalid as error:
            raise Invalid(f"the document is none: {error}", errors={error.field or "document": error.words}) from error
        async with self._locks.setdefault(machine_id, asyncio.Lock()):
            if said.revision > self.of(machine_id).revision:
                path = self._folder_of(machine_id) / FILE
                await asyncio.to_thread(durable.write_json, path, said.as_json())
                self._kept[machine_id] = said
        return self.of(machine_id)

    def forget(self, machine_id: str) -> None:
        """After destroy."""
        self._kept.pop(machine_id, None)
        self._locks.pop(machine_id, None)
        (self._folder_of(machine_id) / FILE).unlink(missing_ok=True)

    def _read(self, machine_id: str) -> egress.Document:
        said = durable.read_json(self._folder_of(machine_id) / FILE)
        if said is None:
            return egress.Document()
        try:
            return egress.parse_document(said)
        except egress.Invalid as error:
            log.failure("network.unreadable", error, machine_id=machine_id)
            return egress.Document()
