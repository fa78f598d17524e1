"""Management commands: tokens, the first admin, hosts, status."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from sandboxes.models import Host
from tests.upstairs.conftest import make
from tests.upstairs.hostd import Hostd
from workspaces import selectors, tokens
from workspaces.models import User
from workspaces.models_people import AuditEntry

pytestmark = pytest.mark.django_db


def said(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_a_token_is_all_that_is_printed_and_its_user_is_made() -> None:
    out = said("berth_token", "ci-bot")
    assert out == out.strip() + "\n" and out.startswith("berth_") and "\n" not in out.strip()
    actor = selectors.actor_from_token(out.strip())
    assert actor.user_id == User.objects.get(username="ci-bot").pk
    assert not actor.is_admin and "admin" not in actor.scopes and "exec" in actor.scopes
    assert not User.objects.get().has_usable_password()
    noted = AuditEntry.objects.get()
    assert (noted.kind, noted.target, noted.outcome) == ("token.create", f"token:{actor.token_id}", "ok")
    assert (noted.actor_type, noted.actor_name) == ("system", "command line")
    assert noted.data["user"] == "ci-bot" and "exec" in noted.data["scopes"] and out.strip() not in str(noted.data)


def test_admin_scope_limits_and_expiry_are_as_asked(ann: User) -> None:
    assert selectors.actor_from_token(said("berth_token", "boss", "--admin").strip()).is_admin
    workspace = make(ann)
    limited = selectors.actor_from_token(said("berth_token", "ann", "--scope", "exec", "--scope", "files:read",
                                              "--workspace", workspace.pk, "--expires-in-s", "60").strip())
    assert limited.scopes == {"exec", "files:read"} and limited.workspace_ids == {workspace.pk}


@pytest.mark.parametrize("arguments", [("berth_token", "a b"), ("berth_token", "ann", "--scope", "root"),
                                       ("berth_token", "ann", "--workspace", "nope")])
def test_a_token_that_cannot_be_made_is_refused_and_makes_nobody(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        said(*arguments)
    assert User.objects.count() == 0 and AuditEntry.objects.count() == 0


def test_the_first_admin_gets_a_code_until_there_is_a_password() -> None:
    first = said("berth_admin")
    assert "/sign-in?setup" in first
    admin = User.objects.get(username="admin")
    assert admin.is_superuser and not admin.has_usable_password()
    second = said("berth_admin").split()
    code = next(word for word in second if word.count("-") == 3)
    old = next(word for word in first.split() if word.count("-") == 3)
    assert tokens.use_setup_code(old) is None, "a newer code replaces the older"
    assert tokens.use_setup_code(code) == admin
    admin.set_password("a long enough phrase")
    admin.save()
    assert said("berth_admin") == ""
    assert "one-time code" in said("berth_admin", "second")
    noted = list(AuditEntry.objects.order_by("created_at", "pk").values_list("kind", "target", "actor_name"))
    assert noted == [("user.code", f"user:{name}", "command line") for name in ("admin", "admin", "second")]


def test_a_host_is_registered_from_what_it_says_of_itself(hostd: Hostd) -> None:
    Host.objects.all().delete()
    assert "fake" in said("berth_host", "--address", hostd.address)
    host = Host.objects.get(pk="local")
    assert host.capabilities["driver"] == "fake" and host.images == {"default": "fake"}
    with pytest.raises(CommandError):
        said("berth_host", "--address", "unix:/nowhere")


def test_status_counts_workspaces_by_state(hostd: Hostd, ann: User) -> None:
    make(ann)
    facts: dict[str, Any] = json.loads(said("berth_status", "--json"))
    assert facts["workspaces"] == {"creating": 1}
    assert facts["hosts"][0]["driver"] == "fake" and facts["hosts"][0]["reachable"] is True
    assert "1 creating" in said("berth_status")
