"""What a plan is about beside its machine: a checkpoint, and whether memory comes with it. Pure; made by upstairs'
reconcile, handed through the hatch, read by steps.

A plan with a subject is the same plan under a newer generation: a capture that is half done stays that capture,
whatever its owner wants meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    checkpoint_id: str = ""
    memory: bool = False
    #: The machine that has the checkpoint, where it is not the plan's own (a clone).
    source_machine: str = ""
    #: Which of the machine's restores this is; 0 for plans that restore nothing.
    restore: int = 0
    #: It is to run afterwards: the host need not be asked twice.
    run: bool = False

    @property
    def key(self) -> str:
        """A word for the run's row: the same subject, the same word."""
        return f"{self.checkpoint_id}:{self.restore}" if self.restore else self.checkpoint_id


NOTHING = Subject()
