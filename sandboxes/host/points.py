"""A machine's points in time as folders: its standby and its checkpoints. What they are called, and when they count.

Called by operations, boot and adopt; calls the file system only. The driver fills a folder, this module names it: a
folder under a name that begins with a dot does not count yet, or no more, and is cleared away by the next hostd.

    standby/            there, and the machine is parked, whatever else is written anywhere
    .standby.used/      its memory runs again, and what follows a wake is not yet done
    checkpoints/ID/     one checkpoint            each has checkpoint.json: who was captured, and which execs ran
"""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sandboxes.drivers.base import MachineHome
from sandboxes.errors import Invalid
from sandboxes.host import durable
from sandboxes.linux import atomic

Json = dict[str, Any]
NOTE = "checkpoint.json"
CHECKPOINT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: How the ids of quiesced looks begin.
LOOK = "look-"
#: So many wakes of one image may fail before it is given up and the disk boots cold.
WAKES_TRIED = 3


@dataclass(frozen=True)
class Point:
    """What hostd notes of a capture."""

    checkpoint_id: str
    #: Epoch of the body that was captured: a clone's agent must be told a later one.
    epoch: int
    #: "same": its execs go on as the records they are. "renewed": another past; they become new records.
    execs_are: str = "same"
    execs: list[Json] = field(default_factory=list)
    result: Json = field(default_factory=dict)
    #: Wakes of this image that failed.
    failed_wakes: int = 0

    @property
    def memory(self) -> bool:
        return bool(self.result.get("memory"))


def read(folder: Path) -> Point | None:
    """None as well where a foreign hand was at it: nothing is known then of what was captured."""
    data = durable.read_json(folder / NOTE)
    if data is None or not {"checkpoint_id", "epoch"} <= data.keys():
        return None
    return Point(**{name: data[name] for name in Point.__dataclass_fields__ if name in data})


def write(folder: Path, point: Point) -> None:
    durable.write_json(folder / NOTE, asdict(point))


def note_failed_wake(folder: Path) -> int:
    """How often it failed by now."""
    point = read(folder)
    if point is None:
        return WAKES_TRIED
    write(folder, replace(point, failed_wakes=point.failed_wakes + 1))
    return point.failed_wakes + 1


# -- checkpoints -------------------------------------------------------------------------------------------------------

def checkpoint_folder(home: MachineHome, checkpoint_id: str) -> Path:
    if not CHECKPOINT_ID.fullmatch(checkpoint_id):
        raise Invalid("a checkpoint id is 1 to 64 letters, digits, - and _", errors={"checkpoint_id": "malformed"})
    return home.checkpoint(checkpoint_id)


def checkpoints(home: MachineHome) -> dict[str, Path]:
    """Those that count, by id. A look (`look/subjects.py`) is nobody's checkpoint: it lives as long as its question."""
    folder = home.path / "checkpoints"
    there = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    return {name: there[name] for name in sorted(there) if not name.startswith((".", LOOK))}


# -- folders that do not count yet, or no more -------------------------------------------------------------------------

def aside(folder: Path) -> Path:
    """An empty folder beside `folder`, to be filled and then published."""
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    with durable.space_matters(f"making {folder.name}"):
        beside.mkdir(parents=True, mode=0o700)
    return beside


def publish(beside: Path, folder: Path) -> None:
    """What is complete beside takes the name, in place of what had it. One rename, durable."""
    atomic.sync_folder(beside)
    if folder.exists():
        atomic.exchange(beside, folder)
        shutil.rmtree(beside, ignore_errors=True)
    else:
        beside.rename(folder)
        atomic.sync_folder(folder.parent)


def forget(folder: Path) -> int:
    """The name goes at once, then the files. Answers what that gave back: bytes that had no other name."""
    if not folder.exists():
        return 0
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    atomic.sync_folder(folder.parent)
    freed = sum(status.st_blocks * 512 for path in gone.rglob("*")
                if (status := path.lstat()).st_nlink == 1 and not path.is_dir())
    shutil.rmtree(gone, ignore_errors=True)
    return freed


def used(home: MachineHome) -> Path:
    """Where a standby is whose memory runs again."""
    return home.path / ".standby.used"


def take_into_use(home: MachineHome) -> None:
    """The memory runs: from now on the machine is not parked. One rename, durable."""
    shutil.rmtree(used(home), ignore_errors=True)
    home.standby.rename(used(home))
    atomic.sync_folder(home.path)


def put_back(home: MachineHome) -> None:
    """The body is gone before its wake was over: parked again."""
    used(home).rename(home.standby)
    atomic.sync_folder(home.path)


def clear_away(home: MachineHome) -> None:
    """What a dead hostd was in the middle of. A standby in use is another's to settle."""
    for pattern in (".standby.*", "checkpoints/.*", f"checkpoints/{LOOK}*"):
        for path in home.path.glob(pattern):
            if path != used(home):
                shutil.rmtree(path, ignore_errors=True)
    for pattern in ("standby/.*.new", "checkpoints/*/.*.new", "driver/.*.new"):
        for path in home.path.glob(pattern):
            path.unlink(missing_ok=True)
