"""What the control plane believes about hosts and bodies: the rows of downstairs.

`Sandbox.phase` is written by `plans/runner.py` alone (a test greps for it). Nothing here knows a person:
`machine_id` is an opaque word.

    Host 1──* Sandbox(machine_id)      PlanRun(machine_id) 1──* LedgerEntry      Lease(machine_id)
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q


class Host(models.Model):
    """One hostd. `address` is `unix:/path` (or https:// later)."""

    id = models.CharField(primary_key=True, max_length=40)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=255)
    version = models.CharField(max_length=40, blank=True, default="")
    capabilities = models.JSONField(default=dict, blank=True)
    capacity = models.JSONField(default=dict, blank=True)
    images = models.JSONField(default=dict, blank=True)
    schedulable = models.BooleanField(default=True, help_text="Off: what is here stays, nothing new comes")
    draining = models.BooleanField(default=False, help_text="Its machines are being put to rest; none starts")
    last_seen_at = models.DateTimeField(null=True, blank=True)
    strays = models.JSONField(default=dict, blank=True, help_text="Machines there that no row names: id -> since when")
    feed_seq = models.BigIntegerField(default=0, help_text="The last fact of its feed that became events")

    def __str__(self) -> str:
        return self.name


class Sandbox(models.Model):
    """The body a workspace has now, as last observed."""

    machine_id = models.CharField(primary_key=True, max_length=20)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, null=True, blank=True, related_name="sandboxes")
    booted_generation = models.PositiveBigIntegerField(default=0, help_text="Whose boot made the present body")
    phase = models.CharField(max_length=12, default="absent")
    stage = models.CharField(max_length=40, blank=True, default="")
    end_reason = models.CharField(max_length=100, blank=True, default="")
    disk_used_bytes = models.BigIntegerField(null=True, blank=True)
    memory_image_bytes = models.BigIntegerField(null=True, blank=True, help_text="What its standby costs")
    chain_depth = models.PositiveIntegerField(null=True, blank=True, help_text="Layers of its disk, the head included")
    operation = models.CharField(max_length=20, blank=True, default="", help_text="What hostd was doing to it")
    condition = models.CharField(max_length=40, blank=True, default="",
                                 help_text="What is wrong with a guest whose body lives")
    had_disk = models.BooleanField(default=False, help_text="A disk was seen, so its absence is a loss")
    checkpoints = models.JSONField(default=list, blank=True, help_text="Those that its host keeps")
    network_revision = models.PositiveBigIntegerField(default=0, help_text="Of the network policy that its host keeps")
    observed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "sandboxes"

    def __str__(self) -> str:
        return f"{self.machine_id} {self.phase}"


class Lease(models.Model):
    """Who works on a machine now. The fence grows with every grant; a writer with an older fence has lost."""

    machine_id = models.CharField(primary_key=True, max_length=20)
    fence = models.PositiveBigIntegerField(default=0)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="null: nobody holds it")
    rung = models.BooleanField(default=False, help_text="Somebody asked for work while it was held")

    def __str__(self) -> str:
        return f"{self.machine_id} fence {self.fence}"


class RunState(models.TextChoices):
    RUNNING = "running"
    UNDOING = "undoing"
    DONE = "done"
    FAILED = "failed"
    SUPERSEDED = "superseded"


class PlanRun(models.Model):
    """One attempt to carry out a plan for one generation. At most one is open per machine."""

    id = models.BigAutoField(primary_key=True)
    machine_id = models.CharField(max_length=20, db_index=True)
    plan = models.CharField(max_length=20)
    subject = models.CharField(max_length=60, blank=True, default="", help_text="The checkpoint it is about, if any")
    generation = models.PositiveBigIntegerField()
    state = models.CharField(max_length=12, choices=RunState.choices, default=RunState.RUNNING)
    tries = models.PositiveIntegerField(default=0, help_text="How often a step failed")
    crashes = models.PositiveIntegerField(default=0, help_text="How often its worker vanished")
    next_try_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True, help_text="null: it tries for ever")
    error_code = models.CharField(max_length=60, blank=True, default="")
    error_detail = models.CharField(max_length=500, blank=True, default="")
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["machine_id"], condition=Q(state__in=["running", "undoing"]),
                                    name="plan_run_one_open_per_machine"),
        ]

    def __str__(self) -> str:
        return f"{self.plan} of {self.machine_id} for {self.generation}: {self.state}"


class EntryState(models.TextChoices):
    ACTING = "acting"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class LedgerEntry(models.Model):
    """A step that was begun. Written *before* the step acts, so that a killed worker leaves its trace."""

    run = models.ForeignKey(PlanRun, on_delete=models.CASCADE, related_name="entries")
    position = models.PositiveIntegerField()
    step = models.CharField(max_length=40)
    state = models.CharField(max_length=10, choices=EntryState.choices, default=EntryState.ACTING)
    operation_id = models.CharField(max_length=80, blank=True, default="")
    fence = models.PositiveBigIntegerField(default=0)
    result = models.JSONField(default=dict, blank=True, help_text="What hostd said when it was done")
    at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["position"]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["run", "position"], name="ledger_entry_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.step}: {self.state}"
