"""What admins ask and set: hosts, people, groups, policies, the audit. Base of the classes in `client_admin`; pure.

`_at` is the API's root. The token needs the scope `admin`; others are refused (NotAllowed).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model_admin import AuditEntry, DryRun, EffectivePolicy, Group, Host, Person, Policy
from berth_client.shape import of, read
from berth_client.wire import Json, Steps, given

Terms = Mapping[str, object]


class HostsActs(Place):
    @pages
    def list(self) -> Pages[Host]:
        return Pages(wire.get(f"{self._at}/hosts"), of(Host))

    @act
    def get(self, host_id: str) -> Steps[Host]:
        return read(Host, (yield wire.get(self._path(host_id))).json())

    @act
    def change(self, host_id: str, *, schedulable: bool | None = None, draining: bool | None = None) -> Steps[Host]:
        """Closed for new machines; drained: what runs there goes to rest."""
        request = wire.patch(self._path(host_id), given(schedulable=schedulable, draining=draining))
        return read(Host, (yield request).json())

    def _path(self, host_id: str) -> str:
        return f"{self._at}/hosts/{wire.encoded(host_id)}"


class PeopleActs(Place):
    @pages
    def list(self, *, search: str | None = None, active: bool | None = None, is_admin: bool | None = None,
             limit: int | None = None) -> Pages[Person]:
        """By name, with limits and use."""
        return Pages(wire.get(f"{self._at}/users", search=search, active=_word(active), is_admin=_word(is_admin),
                              limit=limit), of(Person))

    @act
    def get(self, name: str) -> Steps[Person]:
        return read(Person, (yield wire.get(self._path(name))).json())

    @act
    def create(self, name: str, *, is_admin: bool = False, idempotency_key: str | None = None) -> Steps[Person]:
        """Without a password. A code to set one with is a person's act, which no token may ask for."""
        request = wire.post(f"{self._at}/users", {"name": name, "is_admin": is_admin}, key=idempotency_key)
        return read(Person, (yield request).json())

    @act
    def change(self, name: str, *, active: bool | None = None, is_admin: bool | None = None) -> Steps[Person]:
        """Switched off: what they have open ends, their workspaces rest."""
        request = wire.patch(self._path(name), given(active=active, is_admin=is_admin))
        return read(Person, (yield request).json())

    @pages
    def groups(self) -> Pages[Group]:
        return Pages(wire.get(f"{self._at}/groups"), of(Group))

    def _path(self, name: str) -> str:
        return f"{self._at}/users/{wire.encoded(name)}"


class PoliciesActs(Place):
    """`scope` is default, group:NAME or user:NAME; a term is {"value", "upper_bound"}, or one of the two."""

    @pages
    def list(self) -> Pages[Policy]:
        return Pages(wire.get(f"{self._at}/policies"), of(Policy))

    @act
    def get(self, scope: str) -> Steps[Policy]:
        return read(Policy, (yield wire.get(self._path(scope))).json())

    @act
    def set(self, scope: str, terms: Terms) -> Steps[Policy]:
        """All of them: what is left out is inherited."""
        return read(Policy, (yield wire.put(self._path(scope), {"terms": dict(terms)})).json())

    @act
    def change(self, scope: str, terms: Terms) -> Steps[Policy]:
        """Some of them; None inherits one again."""
        return read(Policy, (yield wire.patch(self._path(scope), {"terms": dict(terms)})).json())

    @act
    def remove(self, scope: str) -> Steps[None]:
        yield wire.delete(self._path(scope))

    @act
    def effective(self, user: str | None = None) -> Steps[EffectivePolicy]:
        """What holds for a person, oneself unless said; one's own needs no admin."""
        return read(EffectivePolicy, (yield wire.get(f"{self._at}/policies/effective", user=user)).json())

    @act
    def dry_run(self, *, scope: str | None = None, terms: Terms | None = None, user: str | None = None,
                days: int | None = None, running: bool | None = None) -> Steps[DryRun]:
        """What would go by itself and when; with `scope` and `terms`, as if these were set. Changes nothing."""
        path, word = f"{self._at}/policies/dry-run", _word(running)
        request = wire.get(path, user=user, days=days, running=word)
        if scope is not None:
            said: Json = {"scope": scope, "terms": dict(terms or {})}
            request = wire.post(path, said, user=user, days=days, running=word)
        return read(DryRun, (yield request).json())

    def _path(self, scope: str) -> str:
        return f"{self._at}/policies/{wire.encoded(scope)}"


class AuditActs(Place):
    @pages
    def list(self, *, actor: str | None = None, kind: str | None = None, target: str | None = None,
             outcome: str | None = None, token: str | None = None, address: str | None = None,
             since: datetime | None = None, until: datetime | None = None, limit: int | None = None
             ) -> Pages[AuditEntry]:
        """Newest first, refused acts included."""
        return Pages(wire.get(f"{self._at}/audit", actor=actor, kind=kind, target=target, outcome=outcome, token=token,
                              address=address, since=since.isoformat() if since else None,
                              until=until.isoformat() if until else None, limit=limit), of(AuditEntry))


def _word(flag: bool | None) -> str | None:
    return None if flag is None else str(flag).lower()
