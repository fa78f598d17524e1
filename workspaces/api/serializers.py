"""What requests must look like, and what answers do look like. Used by views and by the schema.

The answers' serializers describe (drf-spectacular reads them); `shapes` makes the answers themselves.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workspaces import names
from workspaces.actors import SCOPES
from workspaces.api.fields import StrictFlag, StrictSerializer, StrictText, StrictWhole, TextMap
from workspaces.api.serializers_network import NetworkIn
from workspaces.api.serializers_people import ApprovalOut, ApprovalsIn

ID_PATTERN = r"^[a-z2-7]{20}$"
STATES = ("creating", "running", "standby", "stopped", "failed", "deleted", "waking", "parking", "stopping",
          "restoring", "deleting")
CHECKPOINT_STATES = ("capturing", "ready", "failed")
MAX_ENV_BYTES = 256 * 1024


class GpuIn(StrictSerializer):
    kind = StrictText(max_length=60)
    count = StrictWhole(min_value=1, max_value=16)


class Span(StrictWhole):
    """Seconds; 0 (and null) is never."""


class IdleIn(StrictSerializer):
    """What is left out is as policy says."""

    standby_after_s = Span(min_value=0, max_value=366 * 86400, required=False, allow_null=True)
    stop_after_s = Span(min_value=0, max_value=366 * 86400, required=False, allow_null=True)


class SecretUseIn(StrictSerializer):
    name = StrictText(max_length=100)
    env = StrictText(max_length=100, required=False)


class WorkspacePatch(StrictSerializer):
    """Fields that may be changed; the shape only while it is stopped."""

    name = StrictText(max_length=300)
    env = TextMap(key_pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z", key_hint="A variable's name is A-Z, a-z, 0-9 and _.",
                  max_items=256, max_value=32768)
    labels = TextMap(key_pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}\Z",
                     key_hint="A label's key is 1 to 63 letters, digits and ._/-.", max_items=64, max_value=255)
    idle = IdleIn()
    network = NetworkIn()
    secrets = serializers.ListField(child=SecretUseIn(), max_length=64)
    approvals = ApprovalsIn()
    cpus = StrictWhole(min_value=1, max_value=64)
    memory_mib = StrictWhole(min_value=256, max_value=1024 * 1024)
    disk_gib = StrictWhole(min_value=1, max_value=16 * 1024)
    gpu = GpuIn(allow_null=True)

    def validate_name(self, value: str) -> str:
        try:
            return names.normalized(value)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error

    def validate_env(self, value: dict[str, str]) -> dict[str, str]:
        if sum(len(k.encode()) + len(v.encode()) for k, v in value.items()) > MAX_ENV_BYTES:
            raise serializers.ValidationError(f"All variables together have at most {MAX_ENV_BYTES} bytes.")
        return value

    def validate_secrets(self, value: list[Any]) -> list[Any]:
        if value:
            raise serializers.ValidationError(f"There is no secret named {value[0]['name']!r}.")
        return value

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class WorkspaceCreate(WorkspacePatch):
    image = serializers.RegexField(r"^[a-z0-9][a-z0-9._-]{0,63}\Z", required=False)
    from_checkpoint = StrictText(max_length=40, required=False, allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields["name"].required = True
        return fields


class ForkIn(StrictSerializer):
    name = StrictText(max_length=300)
    checkpoint = StrictText(max_length=40, required=False, allow_null=True)
    count = StrictWhole(min_value=1, max_value=20, required=False)

    def validate_name(self, value: str) -> str:
        try:
            return names.normalized(value)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        longest = f"{attrs['name']}-{attrs.get('count', 1)}" if attrs.get("count", 1) > 1 else attrs["name"]
        if len(longest) > names.MAX_LENGTH:
            raise serializers.ValidationError({"name": ["Too long for the numbers that are put behind it."]})
        return attrs


class CheckpointPatch(StrictSerializer):
    name = StrictText(max_length=600, allow_blank=True, required=False)
    comment = StrictText(max_length=2000, allow_blank=True, trim_whitespace=False, required=False)
    expires_at = serializers.DateTimeField(allow_null=True, required=False)

    def validate_name(self, value: str) -> str:
        try:
            return names.normalized(value, names.CHECKPOINT_MAX_LENGTH) if value.strip() else ""
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class CheckpointIn(StrictSerializer):
    name = StrictText(max_length=600, allow_blank=True, required=False)
    comment = StrictText(max_length=2000, allow_blank=True, trim_whitespace=False, required=False)
    memory = StrictFlag(required=False, allow_null=True)

    validate_name = CheckpointPatch.validate_name


class RestoreIn(StrictSerializer):
    safety = StrictFlag(required=False)


class TokenCreate(StrictSerializer):
    name = StrictText(max_length=100)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=sorted(SCOPES)), required=False, max_length=20,
                                   allow_empty=False)  # nobody who grants nothing means everything
    workspace_ids = serializers.ListField(child=serializers.RegexField(ID_PATTERN), required=False, allow_null=True,
                                          max_length=200)
    expires_in_s = StrictWhole(min_value=1, max_value=10 * 366 * 86400, required=False, allow_null=True)


class SignIn(StrictSerializer):
    username = StrictText(max_length=150)
    password = StrictText(max_length=1000, trim_whitespace=False)


class SetUp(StrictSerializer):
    code = StrictText(max_length=40)
    password = StrictText(max_length=1000, trim_whitespace=False)


class Empty(StrictSerializer):
    """A body that has nothing to say; `{}` or none at all."""


class HoldIn(StrictSerializer):
    reason = StrictText(max_length=200)
    ttl_s = StrictWhole(min_value=1, max_value=20 * 366 * 86400)


class PolicyIn(StrictSerializer):
    terms = serializers.DictField(child=serializers.JSONField(allow_null=True))


class ProposalIn(PolicyIn):
    scope = StrictText(max_length=200)


class HostPatch(StrictSerializer):
    schedulable = StrictFlag(required=False)
    draining = StrictFlag(required=False)


# -- answers, for the schema ---------------------------------------------------------------------------------------


class TransitionOut(serializers.Serializer[Any]):
    to = serializers.CharField()
    at = serializers.DateTimeField()
    because = serializers.CharField()


class AwakeOut(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="exec, cpu, hold, activity, host, policy or standby_failed")
    detail = serializers.CharField()
    until = serializers.DateTimeField(allow_null=True)


class ForkedFromOut(serializers.Serializer[Any]):
    workspace = serializers.RegexField(ID_PATTERN)
    checkpoint = serializers.RegexField(ID_PATTERN)


class WorkspaceOut(serializers.Serializer[Any]):
    id = serializers.RegexField(ID_PATTERN)
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    state_reason = serializers.CharField(allow_null=True)
    owner = serializers.CharField()
    role = serializers.ChoiceField(choices=("viewer", "operator", "owner"), allow_null=True)
    image = serializers.CharField()
    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    disk_gib = serializers.IntegerField()
    disk_used_bytes = serializers.IntegerField(allow_null=True)
    gpu = GpuIn(allow_null=True)
    env = serializers.DictField(child=serializers.CharField(allow_blank=True))
    labels = serializers.DictField(child=serializers.CharField(allow_blank=True))
    idle = IdleIn()
    network = NetworkIn()
    secrets = serializers.ListField(child=SecretUseIn())
    approvals = ApprovalsIn()
    created_at = serializers.DateTimeField()
    last_activity_at = serializers.DateTimeField(allow_null=True)
    last_activity_kind = serializers.CharField(allow_null=True)
    next_transition = TransitionOut(allow_null=True)
    awake_because = AwakeOut(many=True)
    purge_at = serializers.DateTimeField(allow_null=True)
    head_checkpoint = serializers.CharField(allow_null=True)
    forked_from = ForkedFromOut(allow_null=True, help_text="Where it began, if from another's checkpoint")
    host = serializers.CharField(allow_null=True)
    accelerator = serializers.CharField(allow_null=True)
    preview_url_template = serializers.CharField()


class DeletedOut(WorkspaceOut):
    approval = ApprovalOut(required=False, help_text="It waits for a member's approval (202)")


class ActorOut(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=("user", "token", "system"))
    name = serializers.CharField()


class CheckpointOut(serializers.Serializer[Any]):
    id = serializers.RegexField(ID_PATTERN)
    name = serializers.CharField(allow_blank=True)
    comment = serializers.CharField(allow_blank=True)
    kind = serializers.ChoiceField(choices=("manual", "auto", "safety"))
    state = serializers.ChoiceField(choices=CHECKPOINT_STATES)
    state_reason = serializers.CharField(allow_null=True, help_text="Why it failed")
    actor = ActorOut()
    memory = serializers.BooleanField()
    memory_usable = serializers.BooleanField(help_text="A restore would resume it; else it starts over the same disk")
    consistency = serializers.ChoiceField(choices=("clean", "crash"), allow_null=True)
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # a field's name
    created_at = serializers.DateTimeField()
    disk_bytes = serializers.IntegerField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    pause_ms = serializers.FloatField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)


class ForksOut(serializers.Serializer[Any]):
    results = WorkspaceOut(many=True)


class RestoredOut(WorkspaceOut):
    safety_checkpoint = serializers.CharField(allow_null=True, help_text="Restoring this one undoes the restore")
    approval = ApprovalOut(required=False, help_text="It waits for a member's approval (202)")


class EventOut(serializers.Serializer[Any]):
    seq = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    actor = ActorOut()
    cause = serializers.CharField(required=False)
    data = serializers.DictField()  # type: ignore[assignment]  # a field's name, not the attribute


class TokenOut(serializers.Serializer[Any]):
    id = serializers.RegexField(ID_PATTERN)
    name = serializers.CharField()
    hint = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=sorted(SCOPES)))
    workspace_ids = serializers.ListField(child=serializers.CharField(), allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    secret = serializers.CharField(required=False, allow_null=True, help_text="Only in the answer that made it")


class AmountOut(serializers.Serializer[Any]):
    workspaces = serializers.IntegerField()
    running = serializers.IntegerField()
    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    disk_gib = serializers.IntegerField()
    checkpoints = serializers.IntegerField()


class LimitsOut(serializers.Serializer[Any]):
    """null is no limit."""

    workspaces = serializers.IntegerField(allow_null=True)
    running = serializers.IntegerField(allow_null=True)
    cpus = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    disk_gib = serializers.IntegerField(allow_null=True)
    checkpoints = serializers.IntegerField(allow_null=True)


class HoldOut(serializers.Serializer[Any]):
    id = serializers.RegexField(ID_PATTERN)
    reason = serializers.CharField()
    actor = ActorOut()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "from": serializers.ChoiceField(choices=("api", "guest"))}


class PolicyOut(serializers.Serializer[Any]):
    scope = serializers.CharField(help_text="default, group:NAME or user:NAME")
    terms = serializers.DictField(help_text='term -> {"value", "upper_bound"}')
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(allow_null=True)


class EffectiveOut(serializers.Serializer[Any]):
    user = serializers.CharField()
    terms = serializers.DictField(help_text='term -> {"value", "source", "upper_bound", "capped"}')
    built_in = serializers.DictField(child=serializers.JSONField(allow_null=True),
                                     help_text="What holds where nobody has said anything")


class ForecastOut(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=("workspace", "checkpoint"))
    id = serializers.CharField()
    name = serializers.CharField()
    workspace = serializers.CharField()
    owner = serializers.CharField()
    to = serializers.CharField()
    at = serializers.DateTimeField()
    because = serializers.CharField()
    noticed = serializers.BooleanField()


class DryRunOut(serializers.Serializer[Any]):
    results = ForecastOut(many=True)
    complete = serializers.BooleanField(help_text="false: there is more than is listed")


class MeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    is_admin = serializers.BooleanField()
    actor = ActorOut()
    scopes = serializers.ListField(child=serializers.CharField())
    quota = LimitsOut()
    used = AmountOut()
    disk_used_bytes = serializers.IntegerField(
        help_text="What all of one's workspaces, checkpoints and memory images really take; the trash included")


class SessionOut(serializers.Serializer[Any]):
    user = MeOut(allow_null=True)
    csrf_token = serializers.CharField()


class StrayOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    since = serializers.DateTimeField()


class HostOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    version = serializers.CharField()
    schedulable = serializers.BooleanField()
    draining = serializers.BooleanField()
    reachable = serializers.BooleanField()
    last_seen_at = serializers.DateTimeField(allow_null=True)
    capabilities = serializers.DictField()
    capacity = serializers.DictField()
    images = serializers.DictField()
    machines = serializers.IntegerField()
    strays = StrayOut(many=True, help_text="Machines there that nobody owns; see `manage.py berth_strays`")


class ImageOut(serializers.Serializer[Any]):
    name = serializers.CharField()


class ReadyOut(serializers.Serializer[Any]):
    ready = serializers.BooleanField()
    database = serializers.CharField()
    broker = serializers.CharField()
    host = serializers.CharField()

