"""hostd that kills itself with -9 at a step of its own on the file system, as a power cut would find it.

Started by tests in place of `python -m sandboxes.host`. It reads BERTH_DIES_AT, a file that the test writes once hostd
is up: `{"id", "at": number, "where": text}`. Every change of a name below the state folder counts whose line ("rename
/…/standby") holds the text; at that number the process is gone, before it makes that change.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandboxes.host import __main__ as hostd
from sandboxes.linux import atomic

ARMED = Path(os.environ["BERTH_DIES_AT"])
DIED = ARMED.with_suffix(".died")
STATE = sys.argv[sys.argv.index("--state") + 1]
NAMED = ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "truncate")
counted: dict[str, int] = {}
renamed = os.rename


def step(name: str, *paths: Any) -> None:
    shown = " ".join(os.fspath(path) for path in paths if isinstance(path, str | os.PathLike))
    if STATE not in shown:
        return
    try:
        wanted = json.loads(ARMED.read_text())
    except FileNotFoundError:
        return
    if wanted["where"] not in f"{name} {shown}":
        return
    counted[wanted["id"]] = counted.get(wanted["id"], 0) + 1
    if counted[wanted["id"]] == wanted["at"] and claimed():
        DIED.write_text(f"{name} {shown}")
        os.kill(os.getpid(), signal.SIGKILL)


def claimed() -> bool:
    """Whoever takes the file away first has decided: the test that its time is over, or this process that it dies."""
    try:
        renamed(ARMED, DIED)
    except FileNotFoundError:
        return False
    return True


def dying(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def at_its_time(*args: Any, **more: Any) -> Any:
        step(name, *args[:2])
        return call(*args, **more)

    return at_its_time


for each in NAMED:
    setattr(os, each, dying(each, getattr(os, each)))
atomic.exchange = dying("exchange", atomic.exchange)
shutil.rmtree = dying("rmtree", shutil.rmtree)

if __name__ == "__main__":
    if os.environ.get("BERTH_DIES_ASLEEP"):  # the fake driver with a memory of a kind
        from tests.upstairs import sleepy

        sleepy.install()
    sys.exit(hostd.main())
