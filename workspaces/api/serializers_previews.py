"""Requests and answers about shared ports. Used by `shares` and by the schema."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workspaces.api.fields import StrictSerializer, StrictWhole
from workspaces.models_previews import Visibility
from workspaces.previews import MOST_SHARE_S

VISIBILITIES = tuple(Visibility.values)


class ShareIn(StrictSerializer):
    visibility = serializers.ChoiceField(
        choices=VISIBILITIES, help_text="Besides those who may see the workspace: `private` whoever holds `link`, "
                                        "`signed_in` everybody signed in here, `public` everybody")
    expires_in_s = StrictWhole(min_value=1, max_value=MOST_SHARE_S, required=False, allow_null=True)


class ShareOut(serializers.Serializer[Any]):
    port = serializers.IntegerField()
    visibility = serializers.ChoiceField(choices=VISIBILITIES)
    url = serializers.CharField(help_text="The preview's address; no secret is in it")
    token = serializers.CharField(allow_null=True, help_text="Of a private share, once, to whoever makes it: its "
                                                             "holder sends it as `Berth-Share`, or opens `link`")
    link = serializers.CharField(allow_null=True, help_text="`url` with the token, exchanged at once by a redirect")
    expires_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    actor = serializers.DictField(help_text="Who made it; it ends when they may no longer make it")
