"""The plans by name: which steps, how patient. Read by the runner and the hatch; pure data.

A plan with a deadline gives up (undo, then a named failure); one without tries for ever, because what it takes away
must go in the end (a stop, a purge).
"""

from __future__ import annotations

from dataclasses import dataclass

from sandboxes.plans import steps
from sandboxes.plans.steps import Step

#: A first start may have to make the template of its shape, which takes an emulated boot.
START_DEADLINE_S = 300.0
#: A park or a capture that has not come about by then is no longer the moment that was asked for.
MOMENT_DEADLINE_S = 180.0


@dataclass(frozen=True)
class Plan:
    name: str
    steps: tuple[Step, ...]
    deadline_s: float | None = None
    max_tries: int | None = None


PLANS = {plan.name: plan for plan in (
    Plan("create", (steps.PLACE, steps.CREATE_DISK, steps.NETWORK, steps.BOOT), START_DEADLINE_S, max_tries=3),
    Plan("clone", (steps.PLACE, steps.CLONE, steps.NETWORK, steps.BOOT), START_DEADLINE_S, max_tries=3),
    Plan("start", (steps.NETWORK, steps.BOOT), START_DEADLINE_S, max_tries=3),
    Plan("park", (steps.PARK,), MOMENT_DEADLINE_S, max_tries=2),
    Plan("capture", (steps.CAPTURE,), MOMENT_DEADLINE_S, max_tries=3),
    # Without a deadline: a host that is away may have done it already, and only the host can say so.
    Plan("rollback", (steps.NETWORK, steps.ROLLBACK), max_tries=5),
    Plan("drop", (steps.DROP,)),
    Plan("discard", (steps.DISCARD,)),
    Plan("stop", (steps.SHUTDOWN,)),
    Plan("kill", (steps.KILL,)),
    Plan("purge", (steps.DESTROY,)),
)}
