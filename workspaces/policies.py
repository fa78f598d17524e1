"""Admins' policies as rows, and what they come to for one person. Called by quota, idle, retention, holds, services
and the API; the rule itself is `policy.resolve`. The only writer of Policy rows beside the admin site.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q

from workspaces import network_terms, policy
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.models import User
from workspaces.models_policy import Policy
from workspaces.policy import Effective, Layers, Terms, Value

DAY_S = 24 * 3600
EMPTY: Terms = {}


def built_in() -> dict[str, Value]:
    """What holds where nobody has said anything: 15 minutes, then 7 days, then kept for good."""
    return {
        "standby_after_s": 15 * 60, "stop_after_s": 7 * DAY_S, "trash_after_s": None,
        "purge_after_s": settings.TRASH_S, "notice_s": 3 * DAY_S, "max_hold_s": DAY_S,
        "checkpoint_keep_last": settings.AUTO_CHECKPOINTS_KEPT, "checkpoint_expiry_s": 30 * DAY_S,
        "auto_checkpoints": int(settings.AUTO_CHECKPOINTS), "auto_checkpoint_interval_s": 3600,
        "audit_keep_s": 365 * DAY_S,
        "workspaces": settings.QUOTA_WORKSPACES, "running": settings.QUOTA_RUNNING, "cpus": settings.QUOTA_CPUS,
        "memory_mib": settings.QUOTA_MEMORY_MIB, "disk_gib": settings.QUOTA_DISK_GIB,
        "checkpoints": settings.QUOTA_CHECKPOINTS, **network_terms.BUILT_IN,
    }


class Book:
    """Every policy at the price of two queries, for jobs that ask about many people. `proposed` replaces the terms of
    one key, for a dry run."""

    def __init__(self, proposed: Mapping[str, Terms] | None = None) -> None:
        self._built_in = built_in()
        rows = Policy.objects.select_related("group")
        self._terms: dict[str, Terms] = {row.pk: row.terms for row in rows} | dict(proposed or {})
        names = dict(Group.objects.values_list("pk", "name"))
        self._groups: dict[int, list[tuple[str, Terms]]] = defaultdict(list)
        with_terms = [int(key.removeprefix("group-")) for key in self._terms if key.startswith("group-")]
        through = User.groups.through._default_manager
        members = through.filter(group_id__in=with_terms).values_list("user_id", "group_id")
        for user_id, group_id in members:
            self._groups[user_id].append((names.get(group_id, ""), self._terms[f"group-{group_id}"]))
        self._found: dict[int, dict[str, Effective]] = {}

    def of(self, user_id: int) -> dict[str, Effective]:
        if user_id not in self._found:
            self._found[user_id] = policy.resolve(self._layers(user_id))
        return self._found[user_id]

    def of_workspace(self, user_id: int, own: Mapping[str, Any] | None) -> dict[str, Effective]:
        return policy.resolve(self._layers(user_id), own) if own else self.of(user_id)

    def _layers(self, user_id: int) -> Layers:
        return Layers(self._built_in, self._terms.get(Policy.DEFAULT, EMPTY),
                      tuple(sorted(self._groups.get(user_id, ()), key=lambda pair: pair[0])),
                      self._terms.get(f"user-{user_id}"))


def effective(user: User) -> dict[str, Effective]:
    """One person's terms, in one query."""
    rows = Policy.objects.select_related("group").filter(
        Q(pk=Policy.DEFAULT) | Q(user=user) | Q(group__in=user.groups.all()))
    default, groups, own = EMPTY, [], None
    for row in rows:
        if row.user_id is not None:
            own = row.terms
        elif row.group is not None:
            groups.append((row.group.name, row.terms))
        else:
            default = row.terms
    return policy.resolve(Layers(built_in(), default, tuple(sorted(groups, key=lambda pair: pair[0])), own))


def of_instance(term: str) -> Value:
    """A term that holds for everybody alike."""
    row = Policy.objects.filter(pk=Policy.DEFAULT).first()
    return policy.resolve(Layers(built_in(), row.terms if row else EMPTY))[term].value


def values(found: Mapping[str, Effective]) -> dict[str, Value]:
    return {name: one.value for name, one in found.items()}


def purge_at(owner: User, now: datetime) -> datetime | None:
    """When something that goes into the trash now is purged; None: never by itself."""
    seconds = effective(owner)["purge_after_s"].value
    return None if seconds is None else now + timedelta(seconds=seconds)


def check_idle(owner: User, wanted: Mapping[str, Any]) -> None:
    """Raises Problem invalid, naming the bound."""
    wrong = policy.idle_refusals(wanted, effective(owner)) if wanted else {}
    if wrong:
        said = [f"{name}: {why}" for name, why in wrong.items()]
        raise Problem("invalid", "Some fields are not valid.", errors={"idle": said})


def find(scope: str) -> tuple[str, Group | None, User | None]:
    """The row's key and whom `default`, `group:NAME` or `user:NAME` means. Raises Problem not_found."""
    word, _, name = scope.partition(":")
    if scope == Policy.DEFAULT:
        return Policy.DEFAULT, None, None
    if word == "group" and (group := Group.objects.filter(name=name).first()) is not None:
        return f"group-{group.pk}", group, None
    if word == "user" and (user := User.objects.filter(username=name).first()) is not None:
        return f"user-{user.pk}", None, user
    raise Problem("not_found", "A policy is of default, of group:NAME or of user:NAME, and nobody is called so.")


def put(actor: Actor, scope: str, terms: Any, *, merge: bool = False) -> Policy:
    """Sets the terms of a scope; `merge` changes only those that are named (null takes one away)."""
    key, group, user = find(scope)
    with transaction.atomic():
        row = Policy.objects.select_for_update().filter(pk=key).first() or Policy(pk=key, group=group, user=user)
        row.terms = checked(_merged(row.terms, terms) if merge else terms)
        own = policy.OF_INSTANCE & row.terms.keys() if key != Policy.DEFAULT else ()
        if own:
            raise Problem("invalid", "Some terms are not valid.",
                          errors={name: ["Only the default policy has it."] for name in own})
        row.changed_by = actor.name[:200]
        row.save()
    return row


def checked(terms: Any) -> dict[str, Any]:
    wrong = policy.refusals(terms)
    if wrong:
        raise Problem("invalid", "Some terms are not valid.", errors={name: [why] for name, why in wrong.items()})
    return dict(terms)


def _merged(before: Mapping[str, Any], changes: Any) -> Any:
    if not isinstance(changes, Mapping):
        return changes
    kept = {name: said for name, said in before.items() if name not in changes}
    return kept | {name: said for name, said in changes.items() if said is not None}


def remove(scope: str) -> bool:
    return bool(Policy.objects.filter(pk=find(scope)[0]).delete()[0])
