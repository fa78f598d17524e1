"""The admin site: metadata to look at. Called by Django's admin.

Intent, state and phase have one writer each, so rows are read-only here but for people. Variables, secrets and
hashes are not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from sandboxes.models import Host, Lease, LedgerEntry, PlanRun, Sandbox
from workspaces import models, tokens

admin.site.site_header = admin.site.site_title = "Berth"
admin.site.register(models.User, UserAdmin)


if TYPE_CHECKING:
    Base = admin.ModelAdmin[Any]
else:
    Base = admin.ModelAdmin


class LookOnly(Base):
    """A list and a page without a single thing to press."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(models.Workspace)
class WorkspaceAdmin(LookOnly):
    list_display = ("id", "name", "owner", "state", "state_reason", "intent", "generation", "created_at")
    list_filter = ("state", "intent")
    search_fields = ("id", "name", "owner__username")
    exclude = ("env", "secrets")


@admin.register(models.AccessToken)
class TokenAdmin(LookOnly):
    list_display = ("id", "name", "hint", "user", "created_at", "expires_at", "last_used_at", "revoked_at")
    search_fields = ("id", "name", "user__username")
    exclude = ("secret_hash",)
    actions = ("revoke",)

    @admin.action(description="Revoke at once")
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            tokens.revoke(row)


@admin.register(models.Event)
class EventAdmin(LookOnly):
    list_display = ("workspace", "seq", "at", "kind", "actor_type", "actor_name", "cause")
    list_filter = ("kind", "actor_type")
    search_fields = ("workspace__id", "actor_name")
    # What a command was is content; admins see metadata.
    exclude = ("data",)


@admin.register(models.Membership)
class MembershipAdmin(LookOnly):
    list_display = ("workspace", "user", "role")


@admin.register(models.IdempotencyKey)
class IdempotencyAdmin(LookOnly):
    list_display = ("user", "object_id", "status", "created_at")
    exclude = ("fingerprint",)


@admin.register(models.SetupCode)
class SetupCodeAdmin(LookOnly):
    list_display = ("user", "expires_at", "used_at")
    exclude = ("code_hash",)


@admin.register(models.SignInFailures)
class SignInAdmin(LookOnly):
    list_display = ("subject", "count", "window_ends_at")


@admin.register(Host)
class HostAdmin(LookOnly):
    list_display = ("id", "name", "address", "version", "schedulable", "draining", "last_seen_at", "feed_seq")


@admin.register(Sandbox)
class SandboxAdmin(LookOnly):
    list_display = ("machine_id", "host", "phase", "stage", "booted_generation", "end_reason", "observed_at")
    list_filter = ("phase",)


@admin.register(PlanRun)
class PlanRunAdmin(LookOnly):
    list_display = ("id", "machine_id", "plan", "generation", "state", "tries", "error_code", "started_at", "ended_at")
    list_filter = ("plan", "state", "error_code")
    search_fields = ("machine_id",)


@admin.register(LedgerEntry)
class LedgerAdmin(LookOnly):
    list_display = ("run", "position", "step", "state", "operation_id", "fence", "at")


@admin.register(Lease)
class LeaseAdmin(LookOnly):
    list_display = ("machine_id", "fence", "expires_at", "rung")


import workspaces.admin_policy  # noqa: E402, F401  (its own page)
