"""What is true of this machine as a whole: waiting or attached, its epoch, the workspace's environment.

Written by `world.py` (attach), `clock.py` (resume) and `quiesce.py`; read by every call. It outlives the agent: what a
successor must know is in a small file in memory (/run).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from sandboxes.guest.agent.refusal import Refusal

WAITING, ATTACHED = "waiting", "attached"


class Machine:
    def __init__(self, kept_at: Path | None = None) -> None:
        self._kept_at = kept_at
        self.state = WAITING
        self.epoch = 0
        self.environment: dict[str, str] = {}
        self.hostname = ""
        self.machine_id = ""
        self.quiesced = False
        self.stopping = False
        self.boot_id = os.urandom(8).hex()
        if kept_at is not None and kept_at.exists():
            kept = json.loads(kept_at.read_text())
            self.state, self.epoch, self.environment = kept["state"], kept["epoch"], kept["environment"]

    def attached(self, environment: dict[str, str]) -> None:
        """From now on it is a machine of its own and no template: its incarnation gets its own name."""
        self.state, self.environment = ATTACHED, environment
        self.boot_id = os.urandom(8).hex()
        self.keep()

    def keep(self) -> None:
        if self._kept_at is not None:
            kept = {"state": self.state, "epoch": self.epoch, "environment": self.environment}
            aside = self._kept_at.with_suffix(".new")
            aside.write_text(json.dumps(kept))
            aside.chmod(0o600)
            aside.rename(self._kept_at)

    def refuse_epoch(self, epoch: int) -> Refusal | None:
        if epoch < self.epoch:
            return Refusal("stale_generation", f"this machine has seen epoch {self.epoch}, you are {epoch}")
        return None

    def require_serving(self) -> None:
        """Raises Refusal while no user process may start and no file may be touched."""
        if self.state != ATTACHED:
            raise Refusal("not_attached", "the machine's root disk is not attached yet")
        if self.stopping:
            raise Refusal("not_running", "the machine is shutting down")
        if self.quiesced:
            raise Refusal("busy", "the machine is quiesced for a capture", retry_after_s=1)
