"""`Idempotency-Key` on every POST that makes or changes something, over the whole product: one table, three questions.

The same key and body: the same object, made once. Both at once: one joins the other. Another body: a conflict.
The table is held to the OpenAPI document, so an operation that comes later has to be in it.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.stack import Stack

pytestmark = pytest.mark.stack
Json = dict[str, Any]
EXECS = "/api/v1/workspaces/{id}/execs"
CHECKPOINTS = "/api/v1/workspaces/{id}/checkpoints"
WORKSPACE = "/api/v1/workspaces/{id}"

#: operation -> (address, body, another body, what names the object in the answer)
TABLE: dict[str, tuple[str, Json, Json, str]] = {
    "workspaces_create": ("/api/v1/workspaces", {"name": "made-{n}"}, {"name": "else-{n}"}, "id"),
    "workspaces_fork": (f"{WORKSPACE}/fork", {"name": "fork-{n}"}, {"name": "else-{n}"}, "results"),
    "tokens_create": ("/api/v1/tokens", {"name": "t"}, {"name": "u"}, "id"),
    "checkpoints_create": (CHECKPOINTS, {"name": "point-{n}"}, {"name": "else-{n}"}, "id"),
    "checkpoints_restore": (f"{CHECKPOINTS}/{{cid}}/restore", {}, {"safety": False}, "safety_checkpoint"),
    "holds_create": (f"{WORKSPACE}/holds", {"reason": "a", "ttl_s": 60}, {"reason": "b", "ttl_s": 60}, "id"),
    "shares_create": (f"{WORKSPACE}/ports/8080/share", {"visibility": "public"}, {"visibility": "signed_in"},
                      "created_at"),
    "members_add": (f"{WORKSPACE}/members", {"user": "member-{n}"},
                    {"user": "member-{n}", "role": "operator"}, "user"),
    "members_break_glass": ("/api/v1/workspaces/{foreign}/break-glass", {"reason": "to look"}, {"reason": "to act"},
                            "user"),
    "users_create": ("/api/v1/users", {"name": "made-{n}"}, {"name": "else-{n}"}, "name"),
    "execs_create": (EXECS, {"command": "echo a; date +%N"}, {"command": "echo b"}, "id"),
    "execs_signal": (f"{EXECS}/{{sleeper}}/signal", {"signal": "SIGCONT"}, {"signal": "SIGWINCH"}, "id"),
    "execs_resize": (f"{EXECS}/{{terminal}}/resize", {"cols": 90, "rows": 30}, {"cols": 91, "rows": 30}, "id"),
    "files_mkdir": (f"{WORKSPACE}/files/mkdir", {"path": "/home/user/d-{n}"}, {"path": "/home/user/e-{n}"}, "path"),
    "files_copy": (f"{WORKSPACE}/files/copy", {"path": "/home/user/a", "to": "/home/user/c-{n}"},
                   {"path": "/home/user/a", "to": "/home/user/x-{n}"}, "path"),
    "files_move": (f"{WORKSPACE}/files/move", {"path": "/home/user/m-{n}", "to": "/home/user/n-{n}"},
                   {"path": "/home/user/a", "to": "/home/user/y-{n}"}, "path"),
    "files_chmod": (f"{WORKSPACE}/files/chmod", {"path": "/home/user/a", "mode": "0600"},
                    {"path": "/home/user/a", "mode": "0640"}, "path"),
    **{f"workspaces_{verb}": (f"{WORKSPACE}/{verb}", {}, {}, "id") for verb in ("start", "stop", "standby", "restart")},
}
#: These change nothing, are a browser's way in, or carry bytes (the contract leaves stdin and archives out).
WITHOUT = {"policies_dry_run_proposed", "session_create", "session_setup", "execs_stdin"}
#: They need a state of their own: where they are tried instead.
ELSEWHERE = {"workspaces_undelete", "approvals_decide", "users_code"}
ADMINS = {"members_break_glass", "users_create"}
#: No body of theirs could be another one.
ONE_BODY = {f"workspaces_{verb}" for verb in ("start", "stop", "standby", "restart")}


@pytest.fixture(scope="module")
def anna(stack: Stack) -> httpx.Client:
    return stack.client("anna")


@pytest.fixture(scope="module")
def ids(stack: Stack, anna: httpx.Client) -> dict[str, str]:
    place = stack.workspace("anna")["id"]
    base = f"/api/v1/workspaces/{place}"
    for member in ("member-a", "member-b"):
        stack.token(member)
    anna.put(f"{base}/files/content", params={"path": "/home/user/a"}, content=b"a")
    execs = {"sleeper": {"command": "sleep 600", "background": True},
             "terminal": {"command": ["/bin/sh"], "tty": {"cols": 80, "rows": 24}}}
    return {"id": place, "foreign": stack.workspace("carla")["id"],
            "cid": anna.post(f"{base}/checkpoints?wait=true", json={}).json()["id"],
            **{name: anna.post(f"{base}/execs", json=body).json()["id"] for name, body in execs.items()}}


@pytest.fixture
def ask(stack: Stack, anna: httpx.Client, ids: dict[str, str], request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Asks a row of the table, with a key of its own for each test."""
    def asked(name: str, body: Json, key: str) -> httpx.Response:
        address = TABLE[name][0].format(**ids)
        filled = {k: v.format(n=key) if isinstance(v, str) else v for k, v in body.items()}
        headers = {"Idempotency-Key": f"{name}-{key}"}
        if name in ADMINS:
            headers["Authorization"] = f"Bearer {stack.token('root', '--admin')}"
        return anna.post(address, json=filled, headers=headers)
    return asked


def object_of(name: str, reply: httpx.Response) -> str:
    value = reply.json()[TABLE[name][3]]
    return str([row["id"] for row in value] if isinstance(value, list) else value)


def test_every_post_that_makes_or_changes_something_takes_a_key(stack: Stack) -> None:
    document = httpx.get(f"{stack.base_url}/api/v1/schema/", timeout=60).json()
    posts = {item["post"]["operationId"]: item["post"] for item in document["paths"].values() if "post" in item}
    keyed = {name for name, said in posts.items()
             if any(one["name"] == "Idempotency-Key" for one in said.get("parameters", []))}
    assert keyed == set(TABLE) | ELSEWHERE
    assert set(posts) - keyed == WITHOUT


@pytest.mark.parametrize("name", [name for name in TABLE if name not in ("checkpoints_restore", "workspaces_standby")])
def test_a_key_makes_a_change_once_joins_who_comes_meanwhile_and_refuses_another_body(stack, anna, ids, ask, name
                                                                                      ) -> None:
    _address, body, other, _named = TABLE[name]
    if name == "files_move":
        for key in ("a", "b"):
            anna.put(f"/api/v1/workspaces/{ids['id']}/files/content", params={"path": f"/home/user/m-{key}"})
    first, again = ask(name, body, "a"), ask(name, body, "a")
    assert first.is_success, first.text
    assert again.is_success and object_of(name, again) == object_of(name, first), again.text
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        at_once = list(pool.map(lambda _: ask(name, body, "b"), range(3)))
    assert {reply.is_success for reply in at_once} == {True}, [reply.text for reply in at_once]
    assert len({object_of(name, reply) for reply in at_once}) == 1
    if name not in ONE_BODY:
        refused = ask(name, other, "a")
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict")


def test_a_restore_with_a_key_goes_back_once(anna: httpx.Client, ids, ask) -> None:
    """A second one without a key would be refused (`restoring`), or take the disk back again."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        at_once = list(pool.map(lambda _: ask("checkpoints_restore", {}, "r"), range(3)))
    assert {reply.status_code for reply in at_once} <= {200, 202}, [reply.text for reply in at_once]
    assert len({reply.json()["safety_checkpoint"] for reply in at_once}) == 1
    assert ask("checkpoints_restore", {"safety": False}, "r").json()["code"] == "idempotency_conflict"


def test_undelete_with_a_key_is_done_once_and_shown_as_it_then_is(stack: Stack, anna: httpx.Client) -> None:
    base = f"/api/v1/workspaces/{stack.workspace('anna')['id']}"
    anna.delete(f"{base}?wait=true&timeout_s=60")
    first = anna.post(f"{base}/undelete?wait=true", headers={"Idempotency-Key": "undelete"})
    assert first.is_success and first.json()["state"] == "stopped", first.text
    anna.delete(f"{base}?wait=true&timeout_s=60")
    again = anna.post(f"{base}/undelete?wait=true&timeout_s=2", headers={"Idempotency-Key": "undelete"})
    assert again.is_success and again.json()["state"] == "deleted", "it was done, and is not done anew"


@pytest.mark.parametrize("key", ["", "x" * 256, "ä", "a\tb"])
@pytest.mark.parametrize("name", ["holds_create", "execs_create", "files_mkdir"])
def test_a_key_that_is_none_is_refused_wherever_it_is_sent(anna: httpx.Client, ids, name, key) -> None:
    body = {k: v.format(n="z") if isinstance(v, str) else v for k, v in TABLE[name][1].items()}
    reply = anna.post(TABLE[name][0].format(**ids), json=body, headers=[(b"Idempotency-Key", key.encode())])
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid")
