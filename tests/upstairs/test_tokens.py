"""Tokens: what they may, what they make, and that they end at once."""

from __future__ import annotations

import pytest

from tests.upstairs.conftest import Api
from workspaces import selectors, tokens
from workspaces.actors import SCOPES
from workspaces.api.errors import Problem
from workspaces.models import AccessToken, User


def made_by(api: Api, **fields: object) -> str:
    return str(api("POST", "tokens", {"name": "child", **fields}).json()["secret"])


def test_a_token_that_ends_takes_everything_with_it_that_it_made(api: Api, ann: User) -> None:
    child = made_by(api)
    grandchild = api("POST", "tokens", {"name": "grandchild"}, authorization=f"Bearer {child}").json()["secret"]
    apart = Api(ann)
    assert api("DELETE", f"tokens/{api.token_id}").status_code == 204
    for secret in (api.secret, child, grandchild):
        with pytest.raises(Problem, match="unauthenticated"):
            selectors.actor_from_token(secret)
    assert apart("GET", "me").status_code == 200


def test_a_tokens_line_begins_with_the_token_that_a_person_made(api: Api) -> None:
    child = selectors.actor_from_token(made_by(api))
    assert child.lineage == api.token_id == selectors.actor_from_token(api.secret).lineage
    assert AccessToken.objects.get(pk=child.token_id).made_by == api.token_id


def test_a_token_ends_none_that_may_more_than_it(ann: User) -> None:
    wide, narrow = Api(ann), Api(ann, "workspaces:read", "workspaces:write")
    assert narrow("DELETE", f"tokens/{wide.token_id}").json()["code"] == "forbidden"
    assert wide("DELETE", f"tokens/{narrow.token_id}").status_code == 204
    assert wide("GET", "me").status_code == 200


def test_a_token_that_was_never_given_a_line_is_its_own(ann: User) -> None:
    row, secret = tokens.create(ann, "old", SCOPES)
    AccessToken.objects.filter(pk=row.pk).update(lineage="")
    assert selectors.actor_from_token(secret).lineage == row.pk
