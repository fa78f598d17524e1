"""The output on disk: exact bytes, one order, bounded, and readable by the next hostd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.errors import DiskFull
from sandboxes.host import cast, durable, tape
from sandboxes.host.scroll import PIECE_BYTES, Scroll
from sandboxes.host.tape import STDERR, STDOUT, Tape

pieces = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40)), max_size=40)


def in_order(kept: Tape | Scroll, offset: int = 0, length: int = 7) -> list[tuple[int, bytes]]:
    """All pieces as a reader meets them, joined where the stream does not change."""
    found: list[tuple[int, bytes]] = []
    while (piece := kept.read_in_order(offset, length))[1]:
        offset += len(piece[1])
        if found and found[-1][0] == piece[0]:
            found[-1] = (piece[0], found[-1][1] + piece[1])
        else:
            found.append(piece)
    return found


def joined(items: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for tag, data in items:
        if not data:
            continue
        if found and found[-1][0] == tag:
            found[-1] = (tag, found[-1][1] + data)
        else:
            found.append((tag, data))
    return found


@given(items=pieces, cut=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_bytes_and_order_survive_a_reopening_at_any_point(tmp_path_factory: pytest.TempPathFactory, items, cut):
    folder = tmp_path_factory.mktemp("tape")
    first = Tape(folder, "x", 10_000)
    for tag, data in items[:cut]:
        first.append(tag, data)
    first.close()
    second = Tape(folder, "x", 10_000)
    for tag, data in items[cut:]:
        second.append(tag, data)
    assert in_order(second) == joined(items)
    third = Tape(folder, "x", 10_000)
    assert in_order(third) == joined(items)
    for tag in (STDOUT, STDERR):
        whole = b"".join(data for own, data in items if own == tag)
        assert third.size[tag] == len(whole)
        assert third.read(tag, 3, 10_000) == whole[3:]
    second.close()
    third.close()


def test_a_stream_over_its_limit_is_cut_and_flagged_and_the_other_is_not(tmp_path: Path):
    kept = Tape(tmp_path, "x", 10)
    kept.append(STDOUT, b"0123456")
    kept.append(STDOUT, b"789abc")
    kept.append(STDERR, b"fine")
    kept.append(STDOUT, b"more")
    assert kept.read(STDOUT, 0, 100) == b"0123456789"
    assert kept.truncated == {STDOUT: True, STDERR: False}
    assert in_order(kept) == [(STDOUT, b"0123456789"), (STDERR, b"fine")]


def test_a_change_noted_before_a_death_without_its_bytes_misleads_nobody(tmp_path: Path):
    first = Tape(tmp_path, "x", 100)
    first.append(STDOUT, b"out")
    first._begin_run(STDERR)
    first.close()
    second = Tape(tmp_path, "x", 100)
    assert in_order(second) == [(STDOUT, b"out")]
    second.append(STDOUT, b"put")
    second.append(STDERR, b"err")
    assert in_order(second) == [(STDOUT, b"output"), (STDERR, b"err")]
    assert in_order(Tape(tmp_path, "x", 100)) == [(STDOUT, b"output"), (STDERR, b"err")]


def test_more_changes_of_stream_than_are_kept_are_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tape, "RUNS_KEPT", 3)
    kept = Tape(tmp_path, "x", 100)
    for number in range(6):
        kept.append(STDOUT if number % 2 else STDERR, b"%d" % number)
    assert any(kept.truncated.values())
    assert in_order(kept) == [(STDERR, b"0"), (STDOUT, b"1"), (STDERR, b"24")]  # no stream has a hole


def test_a_full_disk_keeps_nothing_of_a_piece_and_the_repeat_keeps_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kept = Tape(tmp_path, "x", 100)
    kept.append(STDOUT, b"before ")
    real = durable.os.pwrite

    def half(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 2:
            return real(descriptor, data[:2], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable.os, "pwrite", half)
    with pytest.raises(DiskFull):
        kept.append(STDOUT, b"odd")
    assert Tape(tmp_path, "x", 100).size[STDOUT] == len(b"before ")
    monkeypatch.setattr(durable.os, "pwrite", real)
    kept.append(STDOUT, b"odd")
    assert kept.read(STDOUT, 0, 100) == b"before odd"


def test_a_terminal_keeps_a_bounded_tail_at_absolute_offsets(tmp_path: Path):
    scroll = Scroll(tmp_path, "x", tail_bytes=2 * PIECE_BYTES)
    whole = b""
    for number in range(400):
        piece = (b"%06d|" % number) * 1500
        whole += piece
        scroll.append(STDOUT, piece)
    on_disk = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert on_disk == scroll.size_bytes
    assert 2 * PIECE_BYTES <= on_disk <= 4 * PIECE_BYTES
    assert scroll.total == len(whole)
    assert scroll.start > 0
    again = Scroll(tmp_path, "x", tail_bytes=2 * PIECE_BYTES)
    assert (again.start, again.total) == (scroll.start, scroll.total)
    assert b"".join(data for _, data in in_order(again, again.start, 100_000)) == whole[again.start :]
    assert again.read(STDOUT, again.start + 5, 700_000) == whole[again.start + 5 : again.start + 700_005]


def test_what_is_recorded_stays_whole_while_the_tail_goes_on_and_goes_when_nothing_holds_it(tmp_path: Path):
    at = [1000.0]
    scroll = Scroll(tmp_path, "x", tail_bytes=PIECE_BYTES, now=lambda: at[0])
    line = b"%09d\n"

    def write(lines: int) -> None:
        for _ in range(lines):
            at[0] += 0.02
            scroll.append(STDOUT, b"".join(line % (scroll.total // 10 + n) for n in range(1000)))

    write(100)
    first = scroll.total
    scroll.hold((first, None))
    scroll.resized(90, 25)
    write(200)
    last = scroll.total
    scroll.hold((first, last))
    write(400)
    again = Scroll(tmp_path, "x", tail_bytes=PIECE_BYTES, held=(first, last))
    assert again.start > last and again.total - again.start >= PIECE_BYTES
    head, *events = [json.loads(text) for text in cast.lines(again, first, last, (80, 24), "x")]
    assert (head["width"], head["height"], head["timestamp"]) == (90, 25, 1002)
    text = "".join(event[2] for event in events)
    assert len(text) == last - first and text.startswith(f"{first // 10:09d}")
    assert text == "".join(f"{number:09d}\n" for number in range(first // 10, last // 10))
    assert 3.9 < events[-1][0] < 4.1
    kept = list(cast.lines(again, again.start, again.total, (80, 24), "x"))[1:]
    tail = "".join(json.loads(said)[2] for said in kept)
    assert tail.endswith(f"{again.total // 10 - 1:09d}\n") and len(tail) == again.total - again.start
    again.hold(None)
    assert again.size_bytes < 3 * PIECE_BYTES and again.read_in_order(first, 10)[1] == b""


def test_marks_of_a_stream_of_single_bytes_cost_no_more_than_the_bytes(tmp_path: Path):
    at = [0.0]
    scroll = Scroll(tmp_path, "x", now=lambda: at[0])
    for _ in range(30_000):
        at[0] += 1
        scroll.append(STDOUT, b"x")
    marks = sum(path.stat().st_size for path in tmp_path.glob("x.at.*"))
    assert marks < 9000 * 20
    assert [mark.at for mark in scroll.marks(0, 3)][:3] == [1.0, 2.0, 3.0]
