"""One machine's log of connections: rows with numbers, on disk, bounded to two files. Called by `wayout.py` (writes a
batch) and `networks_http.py` (answers a page); calls the file system only. Blocking: called in a thread.

    current.jsonl ──4 MiB──▶ former.jsonl ──▶ gone          {"seq", "at", "name", …} or {"dropped": n}
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandboxes.host import durable
from sandboxes.host.clock import text_of

FILE_BYTES = 4 * 1024 * 1024
#: In the place of a row's number.
NEWEST = -1
Json = dict[str, Any]


class NetLog:
    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self._folder, self._file_bytes = folder, file_bytes
        self._current, self._former = folder / "current.jsonl", folder / "former.jsonl"
        self._seq: int | None = None

    def append(self, rows: list[Json], dropped: int = 0) -> None:
        """All of them or none. Raises DiskFull."""
        first = seq = self._last_seq()
        lines: list[Json] = [{"dropped": dropped}] if dropped else []
        for row in rows:
            seq += 1
            lines.append({"seq": seq, "at": text_of(row["at"]),
                          **{name: value for name, value in row.items() if name not in ("at", "machine_id")}})
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        try:
            self._write(data)
            self._seq = seq
        except BaseException:
            self._seq = first
            raise

    def _write(self, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._current.exists() and self._current.stat().st_size > self._file_bytes:
            self._current.replace(self._former)
        descriptor = os.open(self._current, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # behind what a dead hostd did not finish
            durable.append_all(descriptor, data, size, "the network log")
        finally:
            os.close(descriptor)

    def page(self, after: int, limit: int, verdict: str) -> Json:
        """The oldest rows above `after`; of a first look (NEWEST) the newest, oldest first."""
        found, dropped = [], 0
        for line in self._lines():
            dropped += line.get("dropped", 0)
            if line.get("seq", 0) > after and (not verdict or line["verdict"] == verdict):
                found.append(line)
        rows = found[-limit:] if after == NEWEST else found[:limit]
        return {"results": rows, "next": rows[-1]["seq"] if rows else max(after, self._last_seq()), "dropped": dropped}

    def _last_seq(self) -> int:
        if self._seq is None:
            self._seq = max((line.get("seq", 0) for line in self._lines()), default=0)
        return self._seq

    def _lines(self) -> Iterator[Json]:
        """A line that a dead hostd did not finish does not count."""
        for path in (self._former, self._current):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            for text in data.split(b"\n"):
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict) and ("dropped" in line or "seq" in line):
                    yield line
