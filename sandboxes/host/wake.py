"""A parked machine's memory runs again, or is given up for a cold boot of the same disk. Called by boot and adopt.

Calls the driver, the guest link, `points.py` and the machine's execs. What is true at each moment is one rename:

    standby/ ──driver.resume, agent, names──▶ .standby.used/, phase running ──execs go on──▶ gone
       └── does not fit, is damaged, or failed WAKES_TRIED times: the disk alone, fact machine.memory_dropped
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from typing import Any

from sandboxes.drivers.base import Capture
from sandboxes.errors import Conflict, SandboxError, StepFailed
from sandboxes.guest.link import GuestLink
from sandboxes.host import log, points, quiet, watch
from sandboxes.host.body import Body
from sandboxes.host.machines import Machines
from sandboxes.host.points import Point
from sandboxes.host.registry import Machine
from sandboxes.lifecycle import Phase

LIST_S = 30.0
AGAIN_S = 1.0
EXEC_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def capture_of(machines: Machines, machine: Machine) -> Capture:
    return Capture(machines.home(machine.machine_id).standby, 0.0, 0, "")


async def begin_running(machines: Machines, machine: Machine, body: Body) -> None:
    """The memory runs and its agent knows the time and its names. From here on the machine is not parked."""
    home = machines.home(machine.machine_id)
    await machines.registry.saved(machine)  # "starting": by it a later hostd knows a wake that nobody was told of
    points.take_into_use(home)
    await machines.registry.set_phase(machine, Phase.RUNNING, epoch=body.epoch, memory_since=body.memory_since,
                                      soon=True)
    body.settled = False
    watch.put(machines, machine, body)


async def go_on(machines: Machines, machine: Machine, body: Body, point: Point | None) -> None:
    """What follows a wake: processes thaw, execs go on. Should the agent be away just now, it is done when it is back:
    the machine runs.
    """
    try:
        await _go_on(machines, machine, body, point)
    except SandboxError as error:
        log.failure("wake.not_settled", error, machine_id=machine.machine_id)
        settle(machines, machine, body, point)


async def _go_on(machines: Machines, machine: Machine, body: Body, point: Point | None) -> None:
    """Repeatable."""
    link = await body.soon(LIST_S)
    if point is not None and point.execs_are == "same":
        machines.execs(machine.machine_id).go_on(body)
    elif point is not None:
        await continue_execs(machines, machine, body, link, point)
    await quiet.thaw(link, machine.machine_id)
    await machines.registry.saved(machine)  # "running": by that or by the folder a later hostd knows whose body it is
    await asyncio.to_thread(shutil.rmtree, points.used(machines.home(machine.machine_id)), True)


def settle(machines: Machines, machine: Machine, body: Body, point: Point | None) -> None:
    """`go_on` in the background, as often as it takes; of a body that a former hostd left, too. `point`: of the standby
    that it came from, when that wake was not settled."""
    async def until_done() -> None:
        while not body.ended.is_set():
            try:
                await body.ready()
                await _go_on(machines, machine, body, point)
                return
            except SandboxError as error:
                log.failure("wake.not_settled", error, machine_id=machine.machine_id)
                await asyncio.sleep(AGAIN_S)

    task = asyncio.create_task(until_done(), name=f"settle {machine.machine_id}")
    machines.settling.add(task)
    task.add_done_callback(machines.settling.discard)


async def continue_execs(machines: Machines, machine: Machine, body: Body, link: GuestLink, point: Point) -> None:
    """Each process that runs in this memory of another past becomes a new record; ended ones have theirs already."""
    execs = machines.execs(machine.machine_id)
    known = {record["exec_id"]: record for record in point.execs}
    done = execs.continued() | set(execs.running)
    for found in (await link.request("exec.list", timeout_s=LIST_S))["execs"]:
        exec_id = str(found["exec_id"])
        if exec_id in done:
            continue
        if found["state"] == "running":
            execs.continue_from(known.get(exec_id) or _stranger(exec_id, found), new_exec_id(), body)
        else:
            await link.request("exec.forget", {"exec_id": exec_id}, timeout_s=LIST_S)


def _stranger(exec_id: str, found: dict[str, Any]) -> dict[str, Any]:
    """It ran in the capture and no record of it was kept: its process is real, so it gets a record all the same."""
    tty = {"cols": 80, "rows": 24} if found.get("tty") else None
    request = {"exec_id": exec_id, "command": ["unknown"], "cwd": None, "env": {}, "user": "user", "stdin": None,
               "stdin_open": False, "tty": tty, "timeout_s": None, "wait_s": None, "wake_timeout_s": None,
               "background": True, "max_output_bytes": 1024 * 1024}
    return {"exec_id": exec_id, "request": request, "actor": {"type": "system", "name": "rollback"}, "started": None}


def new_exec_id() -> str:
    return "".join(secrets.choice(EXEC_ID_LETTERS) for _ in range(20))


# -- when it cannot be ------------------------------------------------------------------------------------------------

def given_up(machines: Machines, machine: Machine, error: SandboxError) -> str:
    """The reason why this image is not tried again, or "" when it may be: the machine stays parked."""
    if isinstance(error, Conflict) and str(error.reason).startswith("memory_image_"):
        return str(error.reason)
    if isinstance(error, StepFailed):
        tried = points.note_failed_wake(machines.home(machine.machine_id).standby)
        return "memory_image_unusable" if tried >= points.WAKES_TRIED else ""
    return ""


async def drop_memory(machines: Machines, machine: Machine, lost_reason: str) -> None:
    """The disk goes on alone, as it was at that moment: a wake that failed may have written into the head."""
    home = machines.home(machine.machine_id)
    if home.standby.exists():
        try:
            await machines.driver.adopt(home, home.standby)
        except StepFailed as error:
            log.failure("standby.unreadable", error, machine_id=machine.machine_id)  # the disk's own chain is there
        await asyncio.to_thread(points.forget, home.standby)
    await machines.execs(machine.machine_id).lose(lost_reason)
