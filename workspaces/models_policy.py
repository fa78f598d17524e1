"""The rows of policy: what admins set, who holds a workspace awake, how long nothing has happened, which periodic job
runs. Imported by `models`; written by `policies`, `holds`, `idle`, `retention` and `jobs`, each its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from workspaces import policy
from workspaces.ids import new_id


class Policy(models.Model):
    """Terms for everybody (neither group nor user), for a group, or for one person. The key says whose, so that
    nobody has two."""

    DEFAULT = "default"

    id = models.CharField(primary_key=True, max_length=40, editable=False)
    group = models.OneToOneField(Group, on_delete=models.CASCADE, null=True, blank=True, related_name="policy")
    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True,
                                related_name="policy")
    terms = models.JSONField(default=dict, blank=True)
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        verbose_name_plural = "policies"
        ordering: ClassVar[list[str]] = ["id"]
        constraints: ClassVar[list[Any]] = [
            models.CheckConstraint(condition=Q(group=None) | Q(user=None), name="policy_of_one"),
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self.pk:
            self.pk = self.key()
        super().save(*args, **kwargs)

    def key(self) -> str:
        if self.user_id is not None:
            return f"user-{self.user_id}"
        return f"group-{self.group_id}" if self.group_id is not None else self.DEFAULT

    def __str__(self) -> str:
        return self.scope

    @property
    def scope(self) -> str:
        if self.user is not None:
            return f"user:{self.user.get_username()}"
        return f"group:{self.group.name}" if self.group is not None else "default"

    def clean(self) -> None:
        if self.group is not None and self.user is not None:
            raise ValidationError("A policy is for a group or for a user, not for both.")
        wrong = policy.refusals(self.terms)
        if wrong:
            raise ValidationError([f"{name}: {why}" for name, why in wrong.items()])


class Hold(models.Model):
    """Keeps a running workspace awake until `expires_at`. One from inside the guest stays as a row, ended, for as long
    as the guest goes on saying it, so that its limit cannot be evaded by saying it again."""

    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="holds")
    reason = models.CharField(max_length=200)
    source = models.CharField(max_length=5, default="api", help_text="api or guest")
    actor_type = models.CharField(max_length=10)
    actor_name = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["workspace", "source", "reason"], condition=Q(ended_at=None),
                                    name="hold_one_per_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.reason} of {self.workspace_id}"


class Tally(models.Model):
    """How long nothing has happened in a workspace, as `counting.Count`, and what its host last said of work in it."""

    workspace = models.OneToOneField("workspaces.Workspace", on_delete=models.CASCADE, primary_key=True,
                                     related_name="tally")
    stage = models.CharField(max_length=40)
    activity = models.DateTimeField(null=True, blank=True)
    work = models.DateTimeField(null=True, blank=True)
    since = models.DateTimeField()
    lag = models.DurationField()
    seen_at = models.DateTimeField()

    observed = models.BooleanField(default=False)
    running_execs = models.PositiveIntegerField(default=0)
    cpu_busy = models.BooleanField(default=False)

    notice_to = models.CharField(max_length=10, blank=True, default="")
    notice_at = models.DateTimeField(null=True, blank=True, help_text="The instant that the notice named")
    notice_lag = models.DurationField(null=True, blank=True)
    mailed = models.BooleanField(default=True)

    rest_failures = models.PositiveIntegerField(default=0, help_text="How often in a row it could not go to standby")
    rest_failed_at = models.DateTimeField(null=True, blank=True)
    rest_failed_reason = models.CharField(max_length=60, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.workspace_id} since {self.since}"


class Job(models.Model):
    """A periodic job: who runs it now and when it last began, so that it runs once under any number of schedulers."""

    name = models.CharField(primary_key=True, max_length=20)
    fence = models.PositiveBigIntegerField(default=0)
    began_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="null: nobody runs it")

    def __str__(self) -> str:
        return self.name
