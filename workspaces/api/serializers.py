"""What requests must look like, and what answers do look like. Used by views and by the schema.

The answers' serializers describe (drf-spectacular reads them); `shapes` makes the answers themselves.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from sandboxes import egress
from workspaces import names
from workspaces.actors import SCOPES
from workspaces.api.fields import StrictFlag, StrictSerializer, StrictText, StrictWhole, TextMap

ID_PATTERN = r"^[a-z2-7]{20}$"
STATES = ("creating", "running", "standby", "stopped", "failed", "deleted", "waking", "parking", "stopping",
          "restoring", "deleting")
MAX_ENV_BYTES = 256 * 1024


class GpuIn(StrictSerializer):
    kind = StrictText(max_length=60)
    count = StrictWhole(min_value=1, max_value=16)


class IdleIn(StrictSerializer):
    standby_after_s = StrictWhole(min_value=1, max_value=366 * 86400, required=False, allow_null=True)
    stop_after_s = StrictWhole(min_value=1, max_value=366 * 86400, required=False, allow_null=True)


class SecretUseIn(StrictSerializer):
    name = StrictText(max_length=100)
    env = StrictText(max_length=100, required=False)


class NetworkIn(StrictSerializer):
    mode = serializers.ChoiceField(choices=egress.MODES)
    rules = serializers.ListField(child=serializers.JSONField(), required=False, max_length=200)
    ask = StrictFlag(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        problem = egress.unsupported(attrs)
        if problem:
            raise serializers.ValidationError({"mode": [problem]})
        if attrs.get("rules"):
            raise serializers.ValidationError({"rules": ["Rules belong to the mode `rules`."]})
        return attrs


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

    def validate_from_checkpoint(self, value: str | None) -> str | None:
        if value is not None:
            raise serializers.ValidationError("There is no such checkpoint.")
        return value


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


# -- answers, for the schema ---------------------------------------------------------------------------------------


class TransitionOut(serializers.Serializer[Any]):
    to = serializers.CharField()
    at = serializers.DateTimeField()
    because = serializers.CharField()


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
    network = serializers.DictField()
    secrets = serializers.ListField(child=SecretUseIn())
    created_at = serializers.DateTimeField()
    last_activity_at = serializers.DateTimeField(allow_null=True)
    last_activity_kind = serializers.CharField(allow_null=True)
    next_transition = TransitionOut(allow_null=True)
    purge_at = serializers.DateTimeField(allow_null=True)
    head_checkpoint = serializers.CharField(allow_null=True)
    host = serializers.CharField(allow_null=True)
    accelerator = serializers.CharField(allow_null=True)
    preview_url_template = serializers.CharField()


class ActorOut(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=("user", "token", "system"))
    name = serializers.CharField()


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
    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()


class MeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    is_admin = serializers.BooleanField()
    actor = ActorOut()
    scopes = serializers.ListField(child=serializers.CharField())
    quota = AmountOut()
    used = AmountOut()


class SessionOut(serializers.Serializer[Any]):
    user = MeOut(allow_null=True)
    csrf_token = serializers.CharField()


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


class ReadyOut(serializers.Serializer[Any]):
    ready = serializers.BooleanField()
    database = serializers.CharField()
    broker = serializers.CharField()
    host = serializers.CharField()

