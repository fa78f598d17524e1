"""Who is in a workspace, and what waits for them. Base of the classes in `client`; pure."""

from __future__ import annotations

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model import Approval, Member
from berth_client.problems import WaitTimeout
from berth_client.shape import of, read
from berth_client.wire import Steps, sleep

LOOK_S = 1.0


class MembersActs(Place):
    """`_at` is …/workspaces/{id}/members."""

    @pages
    def list(self) -> Pages[Member]:
        """The owner first."""
        return Pages(wire.get(self._at), of(Member))

    @act
    def add(self, user: str, role: str = "viewer", *, idempotency_key: str | None = None) -> Steps[Member]:
        """`role` is viewer, operator or owner."""
        return read(Member, (yield wire.post(self._at, {"user": user, "role": role}, key=idempotency_key)).json())

    @act
    def change(self, user: str, role: str) -> Steps[Member]:
        return read(Member, (yield wire.patch(f"{self._at}/{wire.encoded(user)}", {"role": role})).json())

    @act
    def remove(self, user: str) -> Steps[None]:
        """By one's own name: leave."""
        yield wire.delete(f"{self._at}/{wire.encoded(user)}")


class ApprovalsActs(Place):
    """`_at` is …/workspaces/{id}/approvals."""

    @pages
    def list(self, *, state: str | None = None, kind: str | None = None) -> Pages[Approval]:
        """Newest first; `state="pending"` is what waits now."""
        return Pages(wire.get(self._at, state=state, kind=kind), of(Approval))

    @act
    def get(self, approval_id: str) -> Steps[Approval]:
        return read(Approval, (yield wire.get(f"{self._at}/{wire.encoded(approval_id)}")).json())

    @act
    def approve(self, approval_id: str) -> Steps[Approval]:
        """No token decides what it asked for itself."""
        return (yield from self._decide(approval_id, "approve"))

    @act
    def deny(self, approval_id: str) -> Steps[Approval]:
        return (yield from self._decide(approval_id, "deny"))

    @act
    def wait(self, approval_id: str, *, give_up_after_s: float = 600) -> Steps[Approval]:
        """Until it was decided, one way or the other; raises WaitTimeout when nobody has by then."""
        waited_s = 0.0
        while True:
            seen = read(Approval, (yield wire.get(f"{self._at}/{wire.encoded(approval_id)}")).json())
            if seen.state != "pending":
                return seen
            if waited_s >= give_up_after_s:
                raise WaitTimeout(f"Nobody decided within {give_up_after_s:g} s.", seen)
            yield from sleep(LOOK_S)
            waited_s += LOOK_S

    def _decide(self, approval_id: str, decision: str) -> Steps[Approval]:
        request = wire.post(f"{self._at}/{wire.encoded(approval_id)}", {"decision": decision})
        return read(Approval, (yield request).json())
