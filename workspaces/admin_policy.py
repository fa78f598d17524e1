"""Policies in Django's admin: one line per term and its bound, in words a person types. Imported by `admin`.

The terms themselves are checked by `policy.refusals`, as the API's are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from workspaces import policy
from workspaces.admin import Base, LookOnly
from workspaces.models_policy import Hold, Job, Policy, Tally

NEVER = ("never", "none", "unlimited")
BOUND = "_bound"


if TYPE_CHECKING:
    Form = forms.ModelForm[Policy]
else:
    Form = forms.ModelForm


class PolicyForm(Form):
    """An empty line is inherited; `never` is never, or no limit."""

    class Meta:
        model = Policy
        fields = ("group", "user")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in policy.KINDS:
            said = self.instance.terms.get(name, {})
            for suffix, word in _words(name):
                self.fields[name + suffix] = forms.CharField(
                    required=False, label=name + (" at most" if suffix else ""), initial=_spoken(name, said, word),
                    help_text="" if suffix else f"Empty: inherited. {_form(name)}")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        terms: dict[str, dict[str, Any]] = {}
        for name in policy.KINDS:
            for suffix, word in _words(name):
                self._take(cleaned, terms, name, suffix, word)
        for name, why in policy.refusals(terms).items():
            self.add_error(name, why)
        self.instance.terms = terms
        if not self.instance.pk:
            self._refuse_a_second(cleaned)
        return cleaned

    def _refuse_a_second(self, cleaned: dict[str, Any]) -> None:
        group, user = cleaned.get("group"), cleaned.get("user")
        if group is not None and user is not None:
            raise forms.ValidationError("A policy is for a group or for a user, not for both.")
        if Policy.objects.filter(pk=Policy(group=group, user=user).key()).exists():
            raise forms.ValidationError("There is one for it already; change that one.")

    def _take(self, cleaned: dict[str, Any], terms: dict[str, dict[str, Any]], name: str, suffix: str,
              word: str) -> None:
        text = str(cleaned.get(name + suffix) or "").strip()
        if policy.KINDS[name] in policy.DOCUMENTS:
            self._take_document(terms, name, text)
            return
        text = text.lower()
        if text in NEVER:
            terms.setdefault(name, {})[word] = None
        elif text.isascii() and text.isdigit():
            terms.setdefault(name, {})[word] = int(text[:20])
        elif text:
            self.add_error(name + suffix, "A number, or: never.")

    def _take_document(self, terms: dict[str, dict[str, Any]], name: str, text: str) -> None:
        """As the API takes it."""
        try:
            if text:
                terms[name] = {"value": json.loads(text)}
        except ValueError:
            self.add_error(name, _form(name))


def _words(name: str) -> tuple[tuple[str, str], ...]:
    """The lines of a term: (suffix of the field, word in the terms)."""
    value = ("", "value")
    return (value,) if policy.KINDS[name] in policy.DOCUMENTS else (value, (BOUND, "upper_bound"))


def _form(name: str) -> str:
    if policy.KINDS[name] is policy.Kind.EGRESS:
        return 'JSON: {"mode": "deny-all"}, {"mode": "rules", "rules": [{"domain": "*.example.org"}]}, or null: none.'
    return 'JSON: ["10.1.2.0/24"].' if policy.KINDS[name] is policy.Kind.RANGES else "A number, or: never."


def _spoken(name: str, said: dict[str, Any], word: str) -> str:
    if word not in said:
        return ""
    if policy.KINDS[name] in policy.DOCUMENTS:
        return json.dumps(said[word])
    return "never" if said[word] is None else str(said[word])


@admin.register(Policy)
class PolicyAdmin(Base):
    form = PolicyForm
    list_display = ("scope", "terms", "changed_at", "changed_by")
    list_select_related = ("group", "user")

    def get_fieldsets(self, request: HttpRequest, obj: Policy | None = None) -> Any:
        lines = [tuple(name + suffix for suffix, _word in _words(name)) for name in policy.KINDS]
        return [(None, {"fields": ("group", "user"),
                        "description": "Neither group nor user: the default for everybody."}),
                ("Terms", {"fields": lines})]

    def get_readonly_fields(self, request: HttpRequest, obj: Policy | None = None) -> tuple[str, ...]:
        return ("group", "user") if obj is not None else ()

    def get_form(self, request: HttpRequest, obj: Policy | None = None, change: bool = False, **kwargs: Any) -> Any:
        """The lines are the form's own and no columns, so Django is not asked to make them."""
        kwargs["fields"] = () if obj is not None else ("group", "user")
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Policy, form: Any, change: bool) -> None:
        obj.changed_by = request.user.get_username()
        super().save_model(request, obj, form, change)


@admin.register(Hold)
class HoldAdmin(LookOnly):
    list_display = ("workspace", "reason", "source", "actor_name", "created_at", "expires_at", "ended_at")


@admin.register(Tally)
class TallyAdmin(LookOnly):
    list_display = ("workspace", "stage", "since", "lag", "seen_at", "observed", "running_execs", "cpu_busy",
                    "notice_to", "notice_at")


@admin.register(Job)
class JobAdmin(LookOnly):
    list_display = ("name", "fence", "began_at", "expires_at")
