"""Holds, tokens: what a workspace or a person has beside machines. Base of the classes in `client`; pure."""

from __future__ import annotations

from collections.abc import Sequence

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model import Hold, Token
from berth_client.shape import of, read
from berth_client.wire import API, Steps, given


class HoldsActs(Place):
    """`_at` is …/workspaces/{id}/holds."""

    @act
    def add(self, reason: str, ttl_s: int, *, idempotency_key: str | None = None) -> Steps[Hold]:
        """Keeps it awake until then; the same reason again sets its end anew."""
        answer = yield wire.post(self._at, {"reason": reason, "ttl_s": ttl_s}, key=idempotency_key)
        return read(Hold, answer.json())

    @pages
    def list(self) -> Pages[Hold]:
        return Pages(wire.get(self._at), of(Hold))

    @act
    def remove(self, hold_id: str | None = None) -> Steps[None]:
        """One; without an id every hold that came through the API."""
        yield wire.delete(self._at if hold_id is None else f"{self._at}/{hold_id}")


class TokensActs(Place):
    @act
    def create(self, name: str, *, scopes: Sequence[str] | None = None, workspace_ids: Sequence[str] | None = None,
               expires_in_s: int | None = None) -> Steps[Token]:
        """Its `secret` is in this answer and nowhere again."""
        said = given(name=name, scopes=None if scopes is None else list(scopes), expires_in_s=expires_in_s,
                     workspace_ids=None if workspace_ids is None else list(workspace_ids))
        # No key, so nothing is repeated: a remembered answer would come without the secret.
        request = wire.post(f"{API}/tokens", said)
        return read(Token, (yield wire.once(request)).json())

    @pages
    def list(self) -> Pages[Token]:
        return Pages(wire.get(f"{API}/tokens"), of(Token))

    @act
    def get(self, token_id: str) -> Steps[Token]:
        return read(Token, (yield wire.get(f"{API}/tokens/{wire.encoded(token_id)}")).json())

    @act
    def revoke(self, token_id: str) -> Steps[None]:
        yield wire.delete(f"{API}/tokens/{wire.encoded(token_id)}")
