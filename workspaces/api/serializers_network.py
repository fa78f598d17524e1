"""What a network policy must look like in a request, and what is said of it. Used by its view, by workspaces and by the
schema. What the rules may say is read by `sandboxes.egress.policy`, in the words that people are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from sandboxes.egress import documents
from sandboxes.egress import policy as egress
from workspaces.api.fields import StrictFlag, StrictSerializer, StrictText, StrictWhole

HELP_RULE = ("Either `domain` (`example.org`; `*.example.org` is any name below it) or `cidr`. `ports`, when left out: "
             "80 and 443 of a domain and any of a range. `methods` and `path_prefix` can be seen in plain HTTP alone: "
             "such a rule has `ports` [80].")


class RuleIn(StrictSerializer):
    domain = StrictText(max_length=255, required=False)
    cidr = StrictText(max_length=18, required=False)
    ports = serializers.ListField(child=StrictWhole(min_value=1, max_value=65535), required=False, min_length=1,
                                  max_length=documents.MAX_PORTS)
    methods = serializers.ListField(child=StrictText(max_length=32), required=False, min_length=1,
                                    max_length=documents.MAX_METHODS)
    path_prefix = StrictText(max_length=documents.MAX_PATH, required=False)


class NetworkIn(StrictSerializer):
    """What it may reach. `rules`: only what they name. `ask`: what they do not name waits for a member's word."""

    mode = serializers.ChoiceField(choices=egress.MODES)
    rules = serializers.ListField(child=RuleIn(), required=False, max_length=documents.MAX_RULES,
                                  help_text=HELP_RULE)
    ask = StrictFlag(required=False)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return super().to_internal_value(data)
        try:
            return egress.parse_policy(dict(data)).as_json()
        except egress.Invalid as error:
            field = error.field.encode("utf-8", "replace").decode() or "mode"
            raise serializers.ValidationError({field: [error.words]}) from error


class NetworkOut(serializers.Serializer[Any]):
    network = NetworkIn()
    revision = serializers.IntegerField(help_text="Grows with every change, of the admins' terms too; also the `ETag`")
    in_force = serializers.BooleanField(help_text="Its host has this revision")
    supported = serializers.BooleanField(help_text="Its host lets machines out; else only `deny-all` can be kept")
    bound = NetworkIn(allow_null=True, help_text="The admins' upper bound: what is not in it is refused all the same")
    private_allowed = serializers.ListField(child=serializers.CharField(),
                                            help_text="Private ranges that rules may open; all others never")
    limits = serializers.DictField(child=serializers.IntegerField(allow_null=True), help_text="null is no limit")
