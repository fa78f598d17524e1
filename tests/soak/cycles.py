"""Mixed cycles over one workspace, the same for the same seed. Called by the tests of this folder."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from tests.soak.workspace import DEADLINE_S, Soaked
from tests.stack import until

Deed = Callable[[Soaked, random.Random], None]
POINTS_KEPT = 6


def _restore(soaked: Soaked, chance: random.Random) -> None:
    """There, and back by the safety checkpoint, which is itself a restore."""
    safety = soaked.restore(chance.choice(sorted(soaked.points) or [soaked.checkpoint()]))
    soaked.check("restore")
    if chance.random() < 0.5:
        soaked.restore(safety)


def _checkpoint(soaked: Soaked, chance: random.Random) -> None:
    former = sorted(soaked.points)
    made = soaked.checkpoint()
    soaked.look(made)
    if former:
        soaked.compare(chance.choice(former), made)
        soaked.compare(made, former[0])
    while len(soaked.points) > POINTS_KEPT:
        gone = chance.choice(sorted(soaked.points))
        del soaked.points[gone]
        soaked.client.delete(f"{soaked.url}/checkpoints/{gone}")


def _host_dies(soaked: Soaked, _chance: random.Random) -> None:
    soaked.stack.restart("hostd")
    soaked.stack.ready()


def _worker_dies(soaked: Soaked, _chance: random.Random) -> None:
    """In the middle of a stop: another worker brings it to its end."""
    soaked.client.post(f"{soaked.url}/stop", json={})
    soaked.stack.restart("worker")
    soaked.stack.ready()
    soaked.wait_for("stopped")


def _power_cut(soaked: Soaked, _chance: random.Random) -> None:
    """In the middle of a checkpoint. Nobody failed, so what ran runs again by itself; whoever waits is answered."""
    soaked.client.post(f"{soaked.url}/checkpoints", json={})
    soaked.stack.power_cut()
    soaked.wait_for("running", "standby", "stopped")

    def settled() -> bool:
        return all(row["state"] != "capturing" for row in soaked.call("GET", f"{soaked.url}/checkpoints")["results"])
    until(settled, "the checkpoint is there or failed", DEADLINE_S)


DEEDS: dict[str, Deed] = {
    "standby": lambda soaked, _: soaked.sleep(),
    "stop": lambda soaked, _: soaked.stop(),
    "checkpoint": _checkpoint,
    "restore": _restore,
    "fork": lambda soaked, chance: soaked.fork(f"fork-{chance.randrange(1 << 30)}"),
    "machine dies": lambda soaked, _: soaked.kill_body(),
    "host dies": _host_dies,
    "worker dies": _worker_dies,
    "power cut": _power_cut,
}


def soak(soaked: Soaked, cycles: int, seed: int) -> Counter[str]:
    """Every deed once, then by chance; the tree is changed before each and compared after each."""
    chance = random.Random(seed)
    order = list(DEEDS)
    chance.shuffle(order)
    done: Counter[str] = Counter()
    for n in range(cycles):
        name = order[n] if n < len(order) else chance.choice(order)
        soaked.change(chance.randrange(1 << 30))
        DEEDS[name](soaked, chance)
        soaked.check(f"cycle {n}, {name} (seed {seed})")
        done[name] += 1
    return done
