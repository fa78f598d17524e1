"""The rows about who may look at a port from outside: shares, and the passes of browsers. Imported by `models`;
written by `previews` alone. Secrets are kept hashed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from workspaces.ids import new_id


class Visibility(models.TextChoices):
    PRIVATE = "private"        # who may see the workspace, and who holds the share's link
    SIGNED_IN = "signed_in"    # and everybody who is signed in here
    PUBLIC = "public"          # everybody


class PreviewShare(models.Model):
    """One port let out by somebody, with at most their own rights; at most one of each port."""

    id = models.CharField(primary_key=True, max_length=20, default=new_id, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="preview_shares")
    port = models.PositiveIntegerField()
    visibility = models.CharField(max_length=10, choices=Visibility.choices)
    token_hash = models.CharField(max_length=64, blank=True, default="")
    made_by = models.ForeignKey("workspaces.User", on_delete=models.CASCADE, related_name="+")
    actor_type = models.CharField(max_length=10)
    actor_name = models.CharField(max_length=200)
    token_id = models.CharField(max_length=20, blank=True, default="", help_text="Ends with it, when a token made it")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True, db_index=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["port"]
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=["workspace", "port"], name="preview_share_of_one_port"),
        ]

    def __str__(self) -> str:
        return f"port {self.port} of {self.workspace_id}: {self.visibility}"


class PreviewPass(models.Model):
    """What a browser shows on a preview's own origin: good for one port, as long as the session or the share is that
    it was made by. A `code` is one that is worth a pass, once and within a minute."""

    secret_hash = models.CharField(primary_key=True, max_length=64, editable=False)
    is_code = models.BooleanField(default=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="preview_passes")
    port = models.PositiveIntegerField()
    session_key = models.CharField(max_length=40, blank=True, default="")
    share = models.ForeignKey(PreviewShare, on_delete=models.CASCADE, null=True, blank=True, related_name="passes")
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{'code' if self.is_code else 'pass'} for port {self.port} of {self.workspace_id}"
