"""What a person owns: the rows of upstairs.

Read by `selectors`, written by `services` (intent), `announce` (state), `events` (events) and `tokens`.
`Workspace.id` is also the machine's id downstairs; nothing here knows a host or a phase.

    User 1──* Workspace 1──* Event            User 1──* AccessToken
                        1──* Checkpoint
                        1──* Membership *──1 User
                        1──* Approval
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

from workspaces.ids import new_id


class User(AbstractUser):
    """A person. `is_superuser` is what Berth calls an admin."""


class Intent(models.TextChoices):
    """What the owner wants."""

    RUNNING = "running"
    STANDBY = "standby"
    STOPPED = "stopped"
    DELETED = "deleted"


class Workspace(models.Model):
    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="workspaces")
    name = models.CharField(max_length=100)

    # Intent: written by services alone.
    intent = models.CharField(max_length=10, choices=Intent.choices, default=Intent.RUNNING)
    generation = models.PositiveBigIntegerField(default=1, help_text="Grows with every change of intent")
    body_generation = models.PositiveBigIntegerField(default=1, help_text="An older body or memory is not wanted")
    failed_reason = models.CharField(max_length=60, blank=True, default="")
    failed_detail = models.CharField(max_length=500, blank=True, default="")
    cause = models.CharField(max_length=60, blank=True, default="", help_text="What asked for the present intent")
    purge_at = models.DateTimeField(null=True, blank=True)

    # The wanted head: written by restores and forks. A restore is wanted while `restore_seq` is ahead.
    head_checkpoint = models.CharField(max_length=20, blank=True, default="", help_text="What the disk descends from")
    wanted_head = models.CharField(max_length=20, blank=True, default="")
    restore_seq = models.PositiveBigIntegerField(default=0)
    restore_done = models.PositiveBigIntegerField(default=0, help_text="The last that came about or was given up")
    safety_checkpoint = models.CharField(max_length=20, blank=True, default="", help_text="Undoes the last restore")
    before_restore = models.JSONField(default=dict, blank=True, help_text="What is put back when the restore fails")
    origin_machine = models.CharField(max_length=20, blank=True, default="", help_text="Whose checkpoint it began from")
    origin_checkpoint = models.CharField(max_length=20, blank=True, default="")
    origin_memory = models.BooleanField(default=False, help_text="It begins with that checkpoint's memory, too")
    has_begun = models.BooleanField(default=False, help_text="It had a disk of its own once")
    may_begin_anew = models.BooleanField(default=False, help_text="A lost disk may be made anew: somebody said so")
    fork_batch = models.CharField(max_length=20, blank=True, default="", db_index=True)

    # Visible state: written by announce alone.
    state = models.CharField(max_length=12, default="creating")
    state_reason = models.CharField(max_length=60, blank=True, default="")
    was_running = models.BooleanField(default=False, help_text="It has run once, so a start is no creation")
    event_seq = models.PositiveBigIntegerField(default=0)

    image = models.CharField(max_length=64, default="default")
    cpus = models.PositiveIntegerField(default=1)
    memory_mib = models.PositiveIntegerField(default=512)
    disk_gib = models.PositiveIntegerField(default=10)
    gpu = models.JSONField(null=True, blank=True)
    env = models.JSONField(default=dict, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    idle = models.JSONField(default=dict, blank=True)
    network = models.JSONField(default=dict, blank=True)
    network_revision = models.PositiveBigIntegerField(default=0, help_text="0: it never could reach anything")
    network_document = models.JSONField(default=dict, blank=True, help_text="What its host is told, with that revision")
    secrets = models.JSONField(default=list, blank=True)
    approvals = models.JSONField(default=dict, blank=True, help_text="Acts of a token that wait for a member")

    created_at = models.DateTimeField(auto_now_add=True)
    last_activity_at = models.DateTimeField(null=True, blank=True)
    last_activity_kind = models.CharField(max_length=20, blank=True, default="")

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["owner", "-created_at", "-id"], name="workspace_list"),
            models.Index(fields=["owner", "state", "-created_at", "-id"], name="workspace_list_state"),
            models.Index(fields=["-created_at", "-id"], name="workspace_recent"),
            models.Index(fields=["state", "-created_at", "-id"], name="workspace_state"),
            models.Index(fields=["intent", "purge_at"], name="workspace_purge"),
        ]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["owner", "name"], condition=~Q(intent="deleted"),
                                    name="workspace_name_unique_per_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class CheckpointKind(models.TextChoices):
    MANUAL = "manual"
    AUTO = "auto"
    SAFETY = "safety"


class CheckpointState(models.TextChoices):
    CAPTURING = "capturing"
    READY = "ready"
    FAILED = "failed"


class Checkpoint(models.Model):
    """A moment of a workspace to go back to: its disk, and its memory where that was kept.

    Written by `checkpoints`. A row whose `dropped_at` is set is shown to nobody; it goes when its host has let go of
    the layers and nothing under way needs it.
    """

    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="checkpoints")
    name = models.CharField(max_length=255, blank=True, default="")
    comment = models.CharField(max_length=2000, blank=True, default="")
    kind = models.CharField(max_length=10, choices=CheckpointKind.choices, default=CheckpointKind.MANUAL)
    state = models.CharField(max_length=10, choices=CheckpointState.choices, default=CheckpointState.CAPTURING)
    state_reason = models.CharField(max_length=60, blank=True, default="")
    actor_type = models.CharField(max_length=10)
    actor_name = models.CharField(max_length=200)
    memory = models.BooleanField(default=False, help_text="Asked for while capturing, kept once ready")
    memory_usable = models.BooleanField(default=False, help_text="It fits what its host runs now")
    consistency = models.CharField(max_length=10, blank=True, default="")
    parent = models.CharField(max_length=20, blank=True, default="")
    shape = models.JSONField(default=dict, help_text="image, cpus, memory_mib, disk_gib of the machine at that moment")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    dropped_at = models.DateTimeField(null=True, blank=True)
    disk_bytes = models.BigIntegerField(null=True, blank=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    pause_ms = models.FloatField(null=True, blank=True)
    notice_because = models.CharField(max_length=20, blank=True, default="", help_text="Why it goes, once said")
    notice_at = models.DateTimeField(null=True, blank=True, help_text="The instant that the notice named")
    mailed = models.BooleanField(default=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["workspace", "-created_at", "-id"], name="checkpoint_list"),
            models.Index(fields=["expires_at"], name="checkpoint_expiry"),
        ]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["workspace", "name"], name="checkpoint_name_unique",
                                    condition=Q(dropped_at=None) & ~Q(name="") & ~Q(state="failed")),
        ]

    def __str__(self) -> str:
        return f"{self.name or self.kind} of {self.workspace_id} ({self.id})"


class Role(models.TextChoices):
    VIEWER = "viewer"
    OPERATOR = "operator"
    OWNER = "owner"


class Membership(models.Model):
    """Somebody beside the owner who may see or work in a workspace. Written by `members`. One with a `reason` is an
    admin's who broke the glass: it ends by itself."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)
    added_at = models.DateTimeField(default=timezone.now)
    added_by = models.CharField(max_length=200, blank=True, default="")
    reason = models.CharField(max_length=500, blank=True, default="", help_text="Why an admin broke the glass")
    expires_at = models.DateTimeField(null=True, blank=True, db_index=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["workspace", "user"], name="membership_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of {self.workspace_id}"


class AccessToken(models.Model):
    """A program's credential. The secret itself is shown once and never kept."""

    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    secret_hash = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(max_length=12, editable=False, help_text="The first characters, to recognize it by")
    scopes = models.JSONField(default=list)
    workspace_ids = models.JSONField(null=True, blank=True, help_text="Limits the token to these; null is no limit")
    made_by = models.CharField(max_length=20, blank=True, default="", help_text="The token that made it, if one did")
    lineage = models.CharField(max_length=20, blank=True, default="", db_index=True,
                               help_text="The first of its line: a person made that one")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"


class Event(models.Model):
    """One thing that happened. `seq` has no gaps within a workspace; rows are never changed."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=60)
    actor_type = models.CharField(max_length=10)
    actor_name = models.CharField(max_length=200)
    cause = models.CharField(max_length=200, blank=True, default="")
    data = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar[list[str]] = ["seq"]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["workspace", "seq"], name="event_seq_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.workspace_id}#{self.seq} {self.kind}"


class IdempotencyKey(models.Model):
    """A POST that was answered, and by which object, so that its repetition is answered the same."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="Hash of method, path and body")
    status = models.PositiveSmallIntegerField(default=0)
    object_id = models.CharField(max_length=40, blank=True, default="")
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.key[:20]} of {self.user_id}"


class SetupCode(models.Model):
    """A one-time code with which a person without a password sets one. Kept hashed, valid for minutes."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    code_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"code of {self.user_id}"


class SignInFailures(models.Model):
    """How often signing in failed for one name or from one address within the present window."""

    subject = models.CharField(primary_key=True, max_length=64)
    count = models.PositiveIntegerField(default=0)
    window_ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.subject[:8]}: {self.count}"


import workspaces.models_people  # noqa: E402  (pages of their own; they name Workspace)
import workspaces.models_policy  # noqa: E402
import workspaces.models_previews  # noqa: E402, F401
