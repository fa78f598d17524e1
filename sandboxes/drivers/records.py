"""What a driver notes about a body so that the next hostd finds it: `home/driver/body.json`.

Called by the drivers. The note is written after the body was started and removed by `release`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandboxes.drivers.base import MachineHome
from sandboxes.linux import atomic
from sandboxes.linux.bodies import Body
from sandboxes.linux.names import instance_of


def body_file(home: MachineHome) -> Path:
    return home.path / "driver" / "body.json"


def mark(instance: str, machine_id: str) -> str:
    """A word in a body's environment by which it is found even when its note was never written."""
    return f"BERTH_BODY={instance}:{machine_id}"


def note_start(home: MachineHome, instance: str, machine_id: str) -> None:
    """Written before the body is started: from here on `release` looks for one."""
    body_file(home).parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(body_file(home), {"instance": instance, "machine_id": machine_id}, durable=False)


def note_body(home: MachineHome, body: Body, **more: Any) -> None:
    note_more(home, pid=body.pid, start_ticks=body.start_ticks, **more)


def note_more(home: MachineHome, **more: Any) -> None:
    atomic.write_json(body_file(home), {**record(home), **more}, durable=False)


def record(home: MachineHome) -> dict[str, Any]:
    """Empty where there never was a body. A note that cannot be read says at least that there may be one, and whose:
    two bodies must never write into one disk.
    """
    noted = atomic.known_json(body_file(home))
    if noted is not None and {"instance", "machine_id"} <= noted.keys():
        return noted
    if body_file(home).exists():
        return {"instance": instance_of(home.path.parent.parent), "machine_id": home.path.name}
    return {}


def recorded_body(home: MachineHome) -> Body | None:
    """The body this home has or had. Searched for by its mark when hostd died between start and note."""
    noted = record(home)
    if "pid" in noted and "start_ticks" in noted:
        return Body(noted["pid"], noted["start_ticks"])
    if noted:
        return next(iter(marked_bodies(noted["instance"], noted["machine_id"]).values()), None)
    return None


def recorded_machine_id(home: MachineHome) -> str:
    return str(record(home).get("machine_id", ""))


def forget_body(home: MachineHome) -> None:
    body_file(home).unlink(missing_ok=True)


def marked_bodies(instance: str, machine_id: str = "") -> dict[str, Body]:
    """Living bodies of this instance (of one machine, or of all) by machine id, read from the process table."""
    wanted = mark(instance, machine_id)
    found: dict[str, Body] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        for word in _environment(folder):
            if word == wanted or (not machine_id and word.startswith(wanted)):
                _keep_eldest(found, word.rpartition(":")[2], int(folder.name))
    return found


def _environment(folder: Path) -> list[str]:
    try:
        return (folder / "environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def _keep_eldest(found: dict[str, Body], machine_id: str, pid: int) -> None:
    """A body's own children carry its mark, too; the body is the one that was there first."""
    body = Body.of(pid)
    if body is not None and body.alive():
        known = found.get(machine_id)
        if known is None or (body.start_ticks, body.pid) < (known.start_ticks, known.pid):
            found[machine_id] = body
