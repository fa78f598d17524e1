"""Field types that mean what they say: "1" is no number, true is no 1, an unknown field is a mistake.

Used by every request serializer; built on DRF's fields. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.drainage import set_override
from rest_framework import serializers


class StrictText(serializers.CharField):
    """A JSON string. No NUL (CharField's own rule), no half of a surrogate pair."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if any("\ud800" <= char <= "\udfff" for char in data):
            raise serializers.ValidationError("This text is no valid Unicode.")
        return str(super().to_internal_value(data))


class StrictWhole(serializers.IntegerField):
    """A JSON integer."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return int(super().to_internal_value(data))


class StrictFlag(serializers.BooleanField):
    """`true` or `false`."""

    def to_internal_value(self, data: Any) -> bool:
        if type(data) is not bool:
            self.fail("invalid", input=data)
        return bool(data)


class TextMap(serializers.Field[dict[str, str], Any, dict[str, str], Any]):
    """An object of strings, bounded in count and in the length of its keys and values."""

    def __init__(self, *, key_pattern: str, key_hint: str, max_items: int, max_value: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key = serializers.RegexField(key_pattern, error_messages={"invalid": key_hint})
        self.max_items, self.max_value = max_items, max_value
        set_override(self, "field", {
            "type": "object", "maxProperties": max_items, "propertyNames": {"pattern": key_pattern.replace("\\Z", "$")},
            "additionalProperties": {"type": "string", "maxLength": max_value, "pattern": "^[^\\x00]*$"}})

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, Mapping):
            raise serializers.ValidationError("This must be an object of strings.")
        if len(data) > self.max_items:
            raise serializers.ValidationError(f"At most {self.max_items} entries.")
        errors: dict[str, Any] = {}
        for key, value in data.items():
            problem = self._problem(key, value)
            if problem:
                errors[key.encode("utf-8", "replace").decode()] = [problem]
        if errors:
            raise serializers.ValidationError(errors)
        return dict(data)

    def _problem(self, key: Any, value: Any) -> str:
        text = StrictText(allow_blank=True, trim_whitespace=False, max_length=self.max_value)
        for field, said in ((self.key, key), (text, value)):
            try:
                field.run_validation(said)
            except serializers.ValidationError as error:
                return " ".join(str(message) for message in error.detail)
        return ""

    def to_representation(self, value: dict[str, str]) -> dict[str, str]:
        return value


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields it does not know, so that a misspelt option never passes for an accepted one."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = {name for name, field in self.fields.items() if not field.read_only}
            unknown = sorted(str(key) for key in data if key not in known)
            if unknown:
                raise serializers.ValidationError(
                    {key.encode("utf-8", "replace").decode(): ["Unknown field."] for key in unknown})
        return super().to_internal_value(data)
