"""Who acts: the value every permission question is asked with. Pure.

Made by `selectors` from a session or a token, read by services, the API, the gateway and live consumers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCOPES = frozenset({
    "workspaces:read", "workspaces:write", "exec", "files:read", "files:write", "checkpoints",
    "network", "secrets", "previews", "approvals", "admin",
})


#: Granted to a token only by name: what is left out of "everything a person may".
BY_NAME_ONLY = frozenset({"admin", "approvals"})


@dataclass(frozen=True)
class Actor:
    """`type` is "user" (a session), "token" or "system"; `name` is what events show."""

    type: str
    name: str
    user_id: int | None = None
    token_id: str | None = None
    is_admin: bool = False
    scopes: frozenset[str] = field(default_factory=lambda: SCOPES)
    #: Ids this token is limited to; None is no limit.
    workspace_ids: frozenset[str] | None = None
    #: The first token of this one's line (itself, when a person made it); "" for people.
    lineage: str = ""

    @property
    def person(self) -> int:
        """The user's id for look-ups; 0, which nobody has, for the system."""
        return self.user_id or 0

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    def to_json(self) -> dict[str, str]:
        return {"type": self.type, "name": self.name}


SYSTEM = Actor(type="system", name="system", is_admin=True)
