"""The exec records of one machine on disk: JSON lines in a few append-only files, never a file per exec.

Called by execs and running; calls the file system only. A file per record would cost an inode made and removed for
each `true`, and each can wait for the file system's own journal (measured: 230 us and up to 28 ms, against 2 us for an
append). A line is appended once and never changed; one that hostd's death cut short does not count.

    log-00000001.jsonl   {"exec_id": …, "seq": …, "request": …}        asked
                         {"exec_id": …, "started": …}                  later lines of the same exec
                         {"exec_id": …, "erased": true}                forgotten: what came before counts no more

A file goes when no exec that is kept has a line in it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.errors import DiskFull
from sandboxes.host import durable, log
from sandboxes.host.records import Json, Record

SEGMENT_BYTES = 1024 * 1024


class Place(NamedTuple):
    """Where one line is."""

    segment: int
    offset: int
    length: int


class Journal:
    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._places: dict[str, list[Place]] = {}
        self._lines_in: Counter[int] = Counter()
        self._segment = 0
        self._descriptor = -1
        self._size = 0

    def load(self) -> list[Record]:
        """All records that are kept, in the order in which they were asked for."""
        found: dict[str, Record] = {}
        for segment in sorted(int(path.stem.removeprefix("log-")) for path in self._folder.glob("log-*.jsonl")):
            self._load_segment(segment, found)
            self._segment = segment
        self._drop_empty()
        return sorted(found.values(), key=lambda record: record.seq)

    def _load_segment(self, segment: int, found: dict[str, Record]) -> None:
        offset = 0
        with self._path(segment).open("rb") as file:
            for text in file:
                if text.endswith(b"\n"):
                    line = json.loads(text)
                    self._take(line, found)
                    self._place(line, Place(segment, offset, len(text)))
                    offset += len(text)

    def _take(self, line: Json, found: dict[str, Record]) -> None:
        exec_id = line["exec_id"]
        if "erased" in line:
            found.pop(exec_id, None)
        elif "request" in line:
            found[exec_id] = Record(**line)
        elif exec_id in found:
            found[exec_id].apply(line)

    def _place(self, line: Json, place: Place) -> None:
        if "erased" in line:
            self._forget(line["exec_id"])
        else:
            self._places.setdefault(line["exec_id"], []).append(place)
            self._lines_in[place.segment] += 1

    def _forget(self, exec_id: str) -> None:
        for place in self._places.pop(exec_id, []):
            self._lines_in[place.segment] -= 1

    # -- writing ------------------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Remembers that it was asked for. Raises DiskFull with nothing left behind."""
        self._append(record.asked())

    def note(self, record: Record, **happened: Any) -> None:
        """`started`, `stdin_sent`, `killed_by` or `ended`: on disk first, then true of the record."""
        self._append({"exec_id": record.exec_id, **happened})
        record.apply(happened)

    def erase(self, exec_id: str) -> None:
        """With a full disk it may come back with the next hostd, which erases it again."""
        try:
            self._append({"exec_id": exec_id, "erased": True})
        except (DiskFull, OSError) as error:
            log.failure("journal.not_erased", error, exec_id=exec_id)
            self._forget(exec_id)
        self._drop_empty()

    def _append(self, line: Json) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if self._descriptor < 0 or self._size >= self._segment_bytes:
            self._open_next()
        durable.append_all(self._descriptor, data, self._size, "an exec record")
        self._place(line, Place(self._segment, self._size, len(data)))
        self._size += len(data)

    def _open_next(self) -> None:
        """A new file for each life of hostd, too: a line cut short stays behind in the former one."""
        with durable.space_matters("an exec record"):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._path(self._segment + 1), flags, 0o600)
        self.close()
        self._segment, self._descriptor, self._size = self._segment + 1, descriptor, 0

    def _drop_empty(self) -> None:
        for segment in [segment for segment, lines in self._lines_in.items() if lines <= 0]:
            if segment != self._segment or self._descriptor < 0:
                del self._lines_in[segment]
                self._path(segment).unlink(missing_ok=True)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, exec_id: str) -> Record | None:
        places = self._places.get(exec_id)
        if not places:
            return None
        first, *later = (json.loads(self._line(place)) for place in places)
        record = Record(**first)
        for line in later:
            record.apply(line)
        return record

    def _line(self, place: Place) -> bytes:
        if place.segment == self._segment and self._descriptor >= 0:
            return os.pread(self._descriptor, place.length, place.offset)
        with self._path(place.segment).open("rb") as file:
            file.seek(place.offset)
            return file.read(place.length)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _path(self, segment: int) -> Path:
        return self._folder / f"log-{segment:08d}.jsonl"
