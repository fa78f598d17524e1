"""The output on disk: exact bytes, one order, bounded, and readable by the next hostd."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.errors import DiskFull
from sandboxes.host import durable, tape
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
    assert 2 * PIECE_BYTES <= on_disk <= 4 * PIECE_BYTES
    assert scroll.total == len(whole)
    assert scroll.start > 0
    again = Scroll(tmp_path, "x", tail_bytes=2 * PIECE_BYTES)
    assert (again.start, again.total) == (scroll.start, scroll.total)
    assert b"".join(data for _, data in in_order(again, again.start, 100_000)) == whole[again.start :]
    assert again.read(STDOUT, again.start + 5, 700_000) == whole[again.start + 5 : again.start + 700_005]
