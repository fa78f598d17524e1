"""A cache of guest images forgets what nobody has used for a month, and nothing that anybody holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.guest.image import prune

NOW_S = 2_000_000_000.0


def image(images: Path, name: str, used_days_ago: float, stamped: bool = True) -> Path:
    folder = images / name
    folder.mkdir(parents=True)
    (folder / prune.MANIFEST).write_text("{}")
    (folder / "tools.img").write_bytes(b"x" * 100)
    used = folder / prune.STAMP if stamped else folder / prune.MANIFEST
    used.touch()
    at = NOW_S - used_days_ago * prune.DAY_S
    os.utime(used, (at, at))
    return folder


def names(images: Path) -> set[str]:
    return {path.name for path in images.iterdir()}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "images"


def test_what_was_not_used_for_a_month_goes_and_the_rest_stays(images: Path) -> None:
    kept = image(images, "boot-kept", 400)
    image(images, "boot-old", 30.1)
    image(images, "boot-fresh", 29.9)
    image(images, "system-old", 31, stamped=False)
    image(images, "root-new", 1, stamped=False)
    image(images, "notes-of-somebody", 400)
    assert prune.prune(images, {kept}, NOW_S) == ["boot-old", "system-old"]
    assert names(images) == {"boot-kept", "boot-fresh", "root-new", "notes-of-somebody"}
    assert (kept / prune.STAMP).stat().st_mtime != NOW_S - 400 * prune.DAY_S, "what is built on counts as used"


def test_what_a_living_process_holds_stays_however_old_its_stamp_is(images: Path) -> None:
    """A hostd of another instance that has run for months, over the same cache."""
    held = image(images, "boot-held", 0)
    program = f"""
import sys
from pathlib import Path
from sandboxes.guest.image import prune
print(prune.hold(Path({str(held)!r})), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "True\n"
        os.utime(held / prune.STAMP, (0, 0))
        assert prune.prune(images, set(), NOW_S) == []
        other.stdin.close()
        other.wait(30)
    assert prune.prune(images, set(), NOW_S) == ["boot-held"]


def test_what_is_gone_is_not_held_and_its_successor_is(images: Path) -> None:
    folder = image(images, "boot-a", 0)
    assert prune.hold(folder) and prune.hold(folder)
    folder.rename(images / "elsewhere")
    assert not prune.hold(folder), "it has to be built again"
    image(images, "boot-a", 0)
    assert prune.hold(folder)
    prune._lost(folder)


def test_what_a_build_that_was_cut_off_left_goes_with_the_next_one_whatever_it_was(images: Path) -> None:
    image(images, ".building-boot-x", 0)
    prune.prune(images, set(), NOW_S)
    assert names(images) == set()
