"""Exec records on disk: nothing said is lost, nothing half said counts, and what is erased takes its space along."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxes.errors import DiskFull
from sandboxes.host import durable
from sandboxes.host.journal import Journal
from sandboxes.host.records import Record

ACTOR = {"type": "user", "name": "ann"}


def record(number: int, **request: object) -> Record:
    asked = {"command": "true", "user": "user", "tty": None, "max_output_bytes": 9, **request}
    return Record(f"exec{number}", number, 1, asked, ACTOR, "2026-01-01T00:00:00.000Z")


def test_a_record_is_read_back_with_all_that_happened_now_and_by_the_next_hostd(tmp_path: Path):
    journal = Journal(tmp_path)
    one, two = record(1), record(2)
    journal.add(one)
    journal.add(two)
    journal.note(one, started={"started_at": "a"})
    journal.note(two, started={"started_at": "b"})
    journal.note(one, killed_by="ann")
    journal.note(one, ended={"outcome": {"kind": "killed", "by": "ann"}, "ended_at": "c"})
    assert journal.read("exec1") == one and journal.read("exec2") == two and journal.read("exec3") is None
    assert (one.state, two.state) == ("ended", "running")
    journal.close()
    again = Journal(tmp_path)
    assert again.load() == [one, two]
    again.note(two, ended={"outcome": {"kind": "exited", "code": 0}, "ended_at": "d"})
    assert again.read("exec2") == two
    again.close()
    assert Journal(tmp_path).load() == [one, two]


def test_a_line_cut_short_counts_for_nothing_and_spoils_no_later_one(tmp_path: Path):
    journal = Journal(tmp_path)
    one = record(1)
    journal.add(one)
    journal.close()
    segment = next(tmp_path.glob("log-*.jsonl"))
    segment.write_bytes(segment.read_bytes() + b'{"exec_id":"exec1","ended":{"outcome":{"kind":"exited","co')
    again = Journal(tmp_path)
    assert [found.state for found in again.load()] == ["starting"]
    again.note(one, started={"started_at": "a"})
    assert again.read("exec1") == one
    again.close()
    assert Journal(tmp_path).load() == [one]


def test_erased_records_stay_away_and_their_files_go_but_a_running_one_keeps_its_own(tmp_path: Path):
    journal = Journal(tmp_path, segment_bytes=2000)
    keeper = record(0)
    journal.add(keeper)
    for number in range(1, 200):
        one = record(number)
        journal.add(one)
        journal.note(one, ended={"outcome": {}, "ended_at": "x"})
        if number > 3:
            journal.erase(f"exec{number - 3}")
    on_disk = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert on_disk < 8 * 2000  # four files and twice what is kept; all of it was thirty
    kept = ["exec0", "exec197", "exec198", "exec199"]
    assert [found.exec_id for found in (journal.read(name) for name in kept) if found] == kept
    assert journal.read("exec100") is None
    journal.close()
    again = Journal(tmp_path, segment_bytes=2000)
    assert [found.exec_id for found in again.load()] == kept
    again.erase("exec198")
    again.add(record(198))
    assert again.read("exec198") == record(198)


def test_a_full_disk_refuses_a_record_and_leaves_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    journal = Journal(tmp_path)
    journal.add(record(1))
    real = durable.os.pwrite

    def half(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 20:
            return real(descriptor, data[:-20], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable.os, "pwrite", half)
    with pytest.raises(DiskFull):
        journal.add(record(2))
    journal.erase("exec1")
    monkeypatch.setattr(durable.os, "pwrite", real)
    assert journal.read("exec2") is None
    journal.add(record(3))
    journal.close()
    assert [found.exec_id for found in Journal(tmp_path).load()] == ["exec1", "exec3"]
