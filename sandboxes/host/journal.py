"""The exec records of one machine on disk: JSON lines in a few append-only files, never a file per exec.

Called by execs and running; calls the file system only. A file per record would cost an inode made and removed for
each `true`, and each can wait for the file system's own journal (measured: 230 us and up to 28 ms, against 2 us for an
append). A line is appended once and never changed; one that hostd's death cut short does not count.

    log-00000001.jsonl   {"exec_id": …, "seq": …, "request": …}        asked
                         {"exec_id": …, "started": …}                  later lines of the same exec
                         {"exec_id": …, "erased": true}                forgotten: what came before counts no more

Files go oldest first, so that no `erased` goes before what it erases. The oldest goes when no kept exec has a line in
it; and when more than half of all is waste, what it still holds is first written again at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.errors import DiskFull
from sandboxes.host import durable, log
from sandboxes.host.records import Json, Record

SEGMENT_BYTES = 1024 * 1024


def _line(text: bytes) -> Json | None:
    """None for one that was cut short, or that no journal wrote: it does not count, and those after it do."""
    if not text.endswith(b"\n"):
        return None
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or "exec_id" not in line:
        log.line("journal.unreadable_line", bytes=len(text))
        return None
    return line


class Place(NamedTuple):
    """Where one line is."""

    segment: int
    offset: int
    length: int


class Journal:
    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._places: dict[str, list[Place]] = {}
        #: Oldest first: segment -> its size. The newest is the one that is written, once `_descriptor` is open.
        self._sizes: dict[int, int] = {}
        self._held: dict[int, set[str]] = {}  # segment -> kept execs with lines in it
        self._live_bytes = 0
        self._newest = 0
        self._descriptor = -1

    def load(self) -> list[Record]:
        """All records that are kept, in the order in which they were asked for."""
        found: dict[str, Record] = {}
        for segment in sorted(int(path.stem.removeprefix("log-")) for path in self._folder.glob("log-*.jsonl")):
            self._load_segment(segment, found)
        self._drop_oldest()
        return sorted(found.values(), key=lambda record: record.seq)

    def _load_segment(self, segment: int, found: dict[str, Record]) -> None:
        self._newest, self._sizes[segment], self._held[segment] = segment, 0, set()
        with self._path(segment).open("rb") as file:
            for text in file:
                line = _line(text)
                if line is None:
                    self._sizes[segment] += len(text)
                    continue
                self._take(line, found)
                self._place(line, len(text))

    def _take(self, line: Json, found: dict[str, Record]) -> None:
        exec_id = line["exec_id"]
        if "erased" in line:
            found.pop(exec_id, None)
        elif "request" in line:
            found[exec_id] = Record(**line)
        elif exec_id in found:
            found[exec_id].apply(line)

    def _place(self, line: Json, length: int) -> None:
        """Notes the line that was just read or written at the end of the newest segment."""
        exec_id, segment, offset = line["exec_id"], self._newest, self._sizes[self._newest]
        self._sizes[segment] += length
        if "erased" in line or "request" in line:
            self._forget(exec_id)
        if "erased" not in line:
            self._places.setdefault(exec_id, []).append(Place(segment, offset, length))
            self._held[segment].add(exec_id)
            self._live_bytes += length

    def _forget(self, exec_id: str) -> None:
        for place in self._places.pop(exec_id, []):
            self._held[place.segment].discard(exec_id)
            self._live_bytes -= place.length

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
        self._drop_oldest()

    def _append(self, line: Json) -> None:
        if self._descriptor < 0 or self._sizes[self._newest] >= self._segment_bytes:
            self._open_next()
            self._compact()
        self._write(line)

    def _write(self, line: Json) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        durable.append_all(self._descriptor, data, self._sizes[self._newest], "an exec record")
        self._place(line, len(data))

    def _open_next(self) -> None:
        """A new file for each life of hostd, too: a line cut short stays behind in the former one."""
        following = self._newest + 1
        with durable.space_matters("an exec record"):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._path(following), flags, 0o600)
        self.close()
        self._newest, self._descriptor = following, descriptor
        self._sizes[following], self._held[following] = 0, set()

    def _drop_oldest(self) -> None:
        """As many of the oldest as hold nothing any more."""
        while self._sizes and not self._held[oldest := next(iter(self._sizes))]:
            if oldest == self._newest and self._descriptor >= 0:
                return
            del self._sizes[oldest], self._held[oldest]
            self._path(oldest).unlink(missing_ok=True)

    def _compact(self) -> None:
        """Moves what the oldest files hold to the end, one line for each exec, while most of everything is waste."""
        with contextlib.suppress(DiskFull):  # then it waits for the next time
            while sum(self._sizes.values()) > 2 * self._live_bytes + 4 * self._segment_bytes:
                oldest = next(iter(self._sizes))
                if oldest == self._newest:
                    return
                for exec_id in sorted(self._held[oldest]):
                    record = self.read(exec_id)
                    assert record is not None
                    self._write(record.whole())
                self._drop_oldest()

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
        if place.segment == self._newest and self._descriptor >= 0:
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
