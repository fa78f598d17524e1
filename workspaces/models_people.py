"""The rows about who did what and who may: audit entries, and acts that wait for a member's approval. Imported by
`models`; written by `audit` and `approvals`, each its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from workspaces.ids import new_id


class AuditEntry(models.Model):
    """One act of somebody, done or refused. Appended by `audit` and never changed; retention removes the oldest.

    It outlives whom and what it names, so it names them and points at nothing. Never a secret, a body or an output.
    """

    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    created_at = models.DateTimeField()
    actor_type = models.CharField(max_length=10, blank=True, default="", help_text="Empty: nobody who is known")
    actor_name = models.CharField(max_length=200, blank=True, default="", help_text="The person's name")
    token_id = models.CharField(max_length=20, blank=True, default="")
    token_name = models.CharField(max_length=200, blank=True, default="")
    address = models.CharField(max_length=60, blank=True, default="")
    kind = models.CharField(max_length=60)
    target = models.CharField(max_length=200, blank=True, default="", help_text="workspace:ID, token:ID, user:NAME, …")
    outcome = models.CharField(max_length=40, help_text="ok, or the code it was refused with")
    status = models.PositiveSmallIntegerField(default=0)
    data = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "audit entries"
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["-created_at", "-id"], name="audit_list"),
            models.Index(fields=["actor_name", "-created_at", "-id"], name="audit_by_actor"),
            models.Index(fields=["target", "-created_at", "-id"], name="audit_by_target"),
            models.Index(fields=["kind", "-created_at", "-id"], name="audit_by_kind"),
            models.Index(fields=["outcome", "-created_at", "-id"], name="audit_by_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_name or '?'} {self.kind} {self.target}: {self.outcome}"


class ApprovalState(models.TextChoices):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class Approval(models.Model):
    """An act of a token that waits for a member, and what became of it. Written by `approvals`.

    `request` is what is to be done, whole, and is emptied once nothing is to be done any more: a command's
    environment may hold secrets. `shown` is what a person decides by.
    """

    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="approval_rows")
    kind = models.CharField(max_length=10, help_text="exec, restore, delete or network")
    state = models.CharField(max_length=10, choices=ApprovalState.choices, default=ApprovalState.PENDING)
    user_id = models.BigIntegerField(help_text="Whose token asks")
    token_id = models.CharField(max_length=20)
    lineage = models.CharField(max_length=20)
    actor_name = models.CharField(max_length=200)
    pattern = models.CharField(max_length=200, blank=True, default="")
    exec_id = models.CharField(max_length=20, blank=True, default="")
    request = models.JSONField(default=dict)
    shown = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by_type = models.CharField(max_length=10, blank=True, default="")
    decided_by_name = models.CharField(max_length=200, blank=True, default="")
    begun_at = models.DateTimeField(null=True, blank=True, help_text="An approved act was begun, or could not be")
    result = models.JSONField(default=dict, help_text="What beginning it came to: ids, or a code and detail")

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["workspace", "-created_at", "-id"], name="approval_list"),
            models.Index(fields=["state", "expires_at"], name="approval_expiry"),
            models.Index(fields=["workspace", "state"], name="approval_pending"),
        ]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["exec_id"], condition=~models.Q(exec_id=""), name="approval_of_one_exec"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.workspace_id}: {self.state}"
