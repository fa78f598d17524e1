"""What requests about people must look like, and what their answers do look like: members, approvals, the audit.

Used by their views and by the schema; `serializers` has the rest.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workspaces import approval_rule
from workspaces.api.fields import StrictFlag, StrictSerializer, StrictText, StrictWhole
from workspaces.members import GLASS_S, LONGEST_GLASS_S

ROLES = ("viewer", "operator", "owner")
GLASS_ROLES = ("viewer", "operator")
APPROVAL_STATES = ("pending", "approved", "denied", "expired", "withdrawn")
APPROVAL_KINDS = ("exec", "restore", "delete", "network")


class MemberIn(StrictSerializer):
    user = StrictText(max_length=150)
    role = serializers.ChoiceField(choices=ROLES, required=False, default="viewer")


class MemberPatch(StrictSerializer):
    role = serializers.ChoiceField(choices=ROLES)


class BreakGlassIn(StrictSerializer):
    reason = StrictText(max_length=500, min_length=3)
    role = serializers.ChoiceField(choices=GLASS_ROLES, required=False, default="viewer")
    expires_in_s = StrictWhole(min_value=60, max_value=LONGEST_GLASS_S, required=False, default=GLASS_S)


class ApprovalsIn(StrictSerializer):
    """Acts of tokens that wait for a member. Patterns on shell text are advice, no fence: see the field's help."""

    exec = serializers.ListField(
        child=StrictText(max_length=approval_rule.LONGEST_PATTERN), required=False,
        max_length=approval_rule.MOST_PATTERNS,
        help_text="Shell patterns (`*`, `?`, `[…]`) on the command as it is written. Advisory: whoever may run "
                  "commands can write the same act differently. `*` makes every new exec wait.")
    restore = StrictFlag(required=False)
    delete = StrictFlag(required=False)
    timeout_s = StrictWhole(min_value=approval_rule.LEAST_S, max_value=approval_rule.LONGEST_S, required=False)


class UserIn(StrictSerializer):
    name = StrictText(max_length=150)
    is_admin = StrictFlag(required=False, default=False)


class UserPatch(StrictSerializer):
    active = StrictFlag(required=False)
    is_admin = StrictFlag(required=False)


class DecisionIn(StrictSerializer):
    decision = serializers.ChoiceField(choices=("approve", "deny"))


# -- answers, for the schema ---------------------------------------------------------------------------------------


class MemberOut(serializers.Serializer[Any]):
    user = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
    added_at = serializers.DateTimeField()
    added_by = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_null=True, help_text="Why an admin broke the glass; null for members")
    expires_at = serializers.DateTimeField(allow_null=True)


class AskerOut(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=("user", "token", "system"))
    name = serializers.CharField()


class ApprovalOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    workspace = serializers.CharField()
    kind = serializers.ChoiceField(choices=APPROVAL_KINDS)
    state = serializers.ChoiceField(choices=APPROVAL_STATES)
    actor = AskerOut(help_text="Whose act waits")
    pattern = serializers.CharField(allow_null=True, help_text="Which pattern the command met")
    exec = serializers.CharField(allow_null=True, help_text="The exec's id, for an exec")
    request = serializers.DictField(help_text="What is to be done: command, user and cwd; checkpoint; purge; of a "
                                           "connection name, address and port")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = AskerOut(allow_null=True)
    result = serializers.DictField(help_text="What the approved act came to: ids, or the code it was refused with")


class AuditOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.DictField(allow_null=True, help_text="type, name (of the person), and the token's id and name")
    address = serializers.CharField(allow_null=True)
    kind = serializers.CharField()
    target = serializers.CharField(allow_null=True)
    outcome = serializers.CharField(help_text="ok, or the code it was refused with")
    status = serializers.IntegerField()
    data = serializers.DictField()  # type: ignore[assignment]  # a field's name, not the attribute


class UserOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    active = serializers.BooleanField(help_text="false: may not sign in, tokens are refused, workspaces rest")
    is_admin = serializers.BooleanField()
    has_password = serializers.BooleanField()
    groups = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    last_sign_in_at = serializers.DateTimeField(allow_null=True)
    quota = serializers.DictField(child=serializers.IntegerField(allow_null=True), help_text="null is no limit")
    used = serializers.DictField(child=serializers.IntegerField())
    disk_used_bytes = serializers.IntegerField()


class CodeOut(serializers.Serializer[Any]):
    user = serializers.CharField()
    code = serializers.CharField(allow_null=True, help_text="Only in the answer that made it")
    expires_at = serializers.DateTimeField(allow_null=True)


class GroupOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    people = serializers.IntegerField()
