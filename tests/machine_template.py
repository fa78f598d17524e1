"""The default shape's template of real machines, made once for a whole run of the tests and laid into each new state.

Called before a hostd or a driver of QEMU begins on a new state folder: making one is a boot, some 15 s of a processor
under emulation, and a run of the tests has many such folders. A template stands alone and is named by all that it
depends on, so one that does not fit is made anew where it is wanted. How it is made is tested by tests/drivers.

Run as a program: `python -m tests.machine_template STATE CACHE` makes it in STATE.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from pathlib import Path


def lay_into(state: Path, cache: Path) -> None:
    """A copy: some tests damage theirs. Whoever comes while it is made waits for it."""
    into = state / "qemu" / "templates"
    if into.exists():
        return
    store = Path(os.environ["BERTH_TEST_TEMPLATES"])
    store.mkdir(exist_ok=True)
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (store / "made").exists():
            subprocess.run([sys.executable, "-m", "tests.machine_template", str(store), str(cache)], check=True)
            (store / "made").touch()
    into.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", str(store / "qemu" / "templates"), str(into)],
                   check=True)


async def make(state: Path, cache: Path) -> None:
    from sandboxes.drivers import select
    from sandboxes.guest.image.build import ensure
    from sandboxes.spec import Shape

    driver = select("qemu", state, ensure(cache, print))
    await driver.prepare(Shape(), print)
    await driver.close()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1]), Path(sys.argv[2])))
