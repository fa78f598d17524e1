"""Who gets in: tokens, cookies with CSRF, scopes, and ids that are not theirs. A real gateway, real requests."""

from __future__ import annotations

import json
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from django.middleware.csrf import _get_new_csrf_string, _mask_cipher_secret

from tests.gateway.conftest import ANNA, AUTH, EID, OTHERS, TOKEN, WID, Rig, scoped
from workspaces.actors import Actor

BASE = f"/api/v1/workspaces/{WID}"
#: Every route of the gateway below a workspace: (method, path, scope)
ROUTES = [
    ("POST", "/execs", "exec"), ("GET", "/execs", "exec"), ("GET", f"/execs/{EID}", "exec"),
    ("DELETE", f"/execs/{EID}", "exec"), ("GET", f"/execs/{EID}/output?stream=stdout", "exec"),
    ("GET", f"/execs/{EID}/stream", "exec"), ("POST", f"/execs/{EID}/stdin", "exec"),
    ("POST", f"/execs/{EID}/signal", "exec"), ("POST", f"/execs/{EID}/resize", "exec"),
    ("GET", f"/execs/{EID}/recording", "exec"), ("PUT", f"/execs/{EID}/recording", "exec"),
    ("GET", "/files?path=/", "files:read"), ("DELETE", "/files?path=/x", "files:write"),
    ("GET", "/files/content?path=/x", "files:read"), ("HEAD", "/files/content?path=/x", "files:read"),
    ("PUT", "/files/content?path=/x", "files:write"), ("POST", "/files/mkdir", "files:write"),
    ("POST", "/files/move", "files:write"), ("POST", "/files/copy", "files:write"),
    ("POST", "/files/chmod", "files:write"), ("GET", "/metrics", "workspaces:read"), ("GET", "/network/log", "network"),
    ("GET", "/files/archive?path=/", "files:read"), ("PUT", "/files/archive?path=/", "files:write"),
    ("GET", "/files/search?path=/&pattern=x", "files:read"), ("GET", "/ports", "previews"),
]


async def ask(rig: Rig, method: str, path: str, headers: dict[str, str] | None = None, **how) -> tuple[int, dict]:
    async with aiohttp.ClientSession(rig.url) as client, client.request(method, path, headers=headers, **how) as reply:
        raw = await reply.read()
        return reply.status, json.loads(raw) if raw else {}


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_a_foreign_workspace_looks_exactly_like_one_that_is_not_there(rig: Rig, method, path, scope) -> None:
    rig.books.tokens["berth_of_bob"] = Actor(type="token", name="bob", user_id=2, token_id="u" * 20)
    bob = {"Authorization": "Bearer berth_of_bob"}
    foreign = await ask(rig, method, BASE + path, bob)
    absent = await ask(rig, method, f"/api/v1/workspaces/{OTHERS}{path}", bob)
    assert foreign == absent
    assert foreign[0] == 404
    assert not rig.hostd.seen and not rig.daphne.seen and not rig.books.wakes and not rig.books.touches


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_every_route_wants_credentials_and_its_scope(rig: Rig, method, path, scope) -> None:
    assert (await ask(rig, method, BASE + path))[0] == 401
    rig.books.tokens[TOKEN] = replace(ANNA, scopes=ANNA.scopes - {scope})
    status, said = await ask(rig, method, BASE + path, AUTH)
    assert status == 403 and (method == "HEAD" or said["code"] == "scope_missing")
    assert not rig.hostd.seen
    rig.app.gate.access.forget("token", "")
    rig.books.tokens[TOKEN] = scoped(scope)
    assert (await ask(rig, method, BASE + path, AUTH))[0] == 200


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_a_token_limited_to_other_workspaces_finds_nothing_here(rig: Rig, method, path, scope) -> None:
    rig.books.tokens[TOKEN] = replace(ANNA, workspace_ids=frozenset({OTHERS}))
    assert (await ask(rig, method, BASE + path, AUTH))[0] == 404
    assert not rig.hostd.seen


async def test_a_viewer_reads_and_never_acts(rig: Rig) -> None:
    rig.books.role = "viewer"
    for method, path, _scope in ROUTES:
        status, _said = await ask(rig, method, BASE + path, AUTH)
        assert status == (200 if method in ("GET", "HEAD") else 403), (method, path)
    assert {r.method for r in rig.hostd.seen} == {"GET", "HEAD"}


async def test_tokens_that_are_wrong_expired_or_odd_are_401_and_name_how_to_ask(rig: Rig) -> None:
    for value, code in [("Bearer berth_nobody", "unauthenticated"), ("Bearer berth_expired", "token_expired"),
                        ("Basic Zm9v", "unauthenticated"), ("Bearer", "unauthenticated"), ("", "unauthenticated")]:
        async with aiohttp.ClientSession(rig.url) as client, \
                client.get(BASE + "/execs", headers={"Authorization": value}) as reply:
            assert reply.status == 401 and reply.headers["WWW-Authenticate"].startswith("Bearer")
            assert (await reply.json(content_type="application/problem+json"))["code"] == code


async def test_a_revoked_token_ends_at_once_when_the_nudge_comes(rig: Rig) -> None:
    assert (await ask(rig, "GET", BASE + "/execs", AUTH))[0] == 200
    del rig.books.tokens[TOKEN]
    assert (await ask(rig, "GET", BASE + "/execs", AUTH))[0] == 200  # kept for its seconds
    rig.app.gate.nudges._tell("token", "t" * 20)
    assert (await ask(rig, "GET", BASE + "/execs", AUTH))[0] == 401


async def test_the_hot_path_asks_upstairs_once(rig: Rig) -> None:
    for _ in range(20):
        assert (await ask(rig, "GET", f"{BASE}/execs/{EID}", AUTH))[0] == 200
    assert rig.books.reads == 2  # one token, one workspace


def browser(rig: Rig, secret: str | None = None, **more: str) -> dict[str, str]:
    rig.books.sessions["s3ss10n"] = Actor(type="user", name="anna", user_id=1)
    cookie = "berth_session=s3ss10n" + (f"; berth_csrf={secret}" if secret else "")
    return {"Cookie": cookie, **more}


async def test_a_cookie_may_look_without_csrf_but_change_nothing(rig: Rig) -> None:
    assert (await ask(rig, "GET", BASE + "/execs", browser(rig)))[0] == 200
    status, said = await ask(rig, "POST", BASE + "/execs", browser(rig), json={"command": "true"})
    assert (status, said["code"]) == (403, "csrf_failed")
    assert not any(r.method == "POST" for r in rig.hostd.seen)


async def test_a_page_of_our_own_with_its_csrf_token_may_change(rig: Rig) -> None:
    secret = _get_new_csrf_string()
    for token in (secret, _mask_cipher_secret(secret)):
        headers = browser(rig, secret, **{"X-CSRFToken": token, "Origin": rig.url})
        assert (await ask(rig, "POST", BASE + "/execs", headers, json={"command": "true"}))[0] == 200


@pytest.mark.parametrize("change", ["other secret", "no header", "evil origin", "null origin", "preview origin",
                                    "other port", "cookie only"])
async def test_forged_changes_are_refused(rig: Rig, change: str) -> None:
    secret = _get_new_csrf_string()
    headers = browser(rig, secret, **{"X-CSRFToken": _mask_cipher_secret(secret), "Origin": rig.url})
    if change == "other secret":
        headers["X-CSRFToken"] = _get_new_csrf_string()
    elif change in ("no header", "cookie only"):
        del headers["X-CSRFToken"]
        if change == "cookie only":
            headers["Cookie"] = "berth_session=s3ss10n"
    else:
        headers["Origin"] = {"evil origin": "https://evil.example", "null origin": "null",
                             "preview origin": f"http://3000--{WID}.preview.localhost:{rig.port}",
                             "other port": f"http://127.0.0.1:{rig.port + 1}"}[change]
    for method, path in [("POST", "/execs"), ("DELETE", f"/execs/{EID}"), ("PUT", f"/execs/{EID}/recording"),
                         ("PUT", "/files/content?path=/x")]:
        status, said = await ask(rig, method, BASE + path, headers)
        assert (status, said["code"]) == (403, "csrf_failed"), (method, path)
    assert not rig.hostd.seen


async def test_credentials_and_cookies_never_reach_the_host(rig: Rig) -> None:
    headers = {**AUTH, "Cookie": "berth_session=x", "X-Forwarded-For": "9.9.9.9", "Berth-Actor": '{"type":"system"}',
               "Berth-Role": "owner"}
    rig.books.role = "viewer"
    _status, said = await ask(rig, "GET", f"{BASE}/execs/{EID}", headers)
    passed = dict(said["headers"])
    assert {"authorization", "cookie", "x-forwarded-for"}.isdisjoint(passed)
    assert json.loads(passed["berth-actor"]) == {"type": "token", "name": "anna's"}
    assert passed["berth-role"] == "viewer"


async def test_unknown_paths_below_a_workspace_are_a_problem_and_stay_here(rig: Rig) -> None:
    for path, status in [("/execs/zz", 404), (f"/execs/{EID}/nothing", 404), ("/files/secret", 404),
                         ("/files/content/..%2f..", 404), ("/execs/", 404)]:
        assert (await ask(rig, "GET", BASE + path, AUTH))[0] == status
        assert (await ask(rig, "GET", BASE + path))[0] == 401
    async with aiohttp.ClientSession(rig.url) as client, client.put(BASE + "/execs", headers=AUTH) as reply:
        assert reply.status == 405 and reply.headers["Allow"] == "GET, POST"
    assert not rig.hostd.seen and not rig.daphne.seen


async def test_the_log_of_a_network_is_paged_by_the_number_of_its_rows(rig: Rig) -> None:
    async def rows(request: web.Request) -> web.StreamResponse:
        after = int(request.query.get("after", 7))
        return web.json_response({"results": [{"seq": after + 1}, {"seq": after + 2}], "next": after + 2, "dropped": 1})

    rig.hostd.handler = rows
    path = f"{BASE}/network/log?limit=2&verdict=refused"
    newest = await ask(rig, "GET", path, AUTH)
    assert newest == (200, {"results": [{"seq": 8}, {"seq": 9}], "next": None, "dropped": 1})
    assert dict(rig.hostd.seen[-1].query) == {"limit": "2", "verdict": "refused"}
    page = (await ask(rig, "GET", f"{path}&after=3", AUTH))[1]
    assert page["next"] == f"{rig.url}{path}&after=5"
    rig.books.role = "viewer"
    assert (await ask(rig, "GET", path, AUTH))[0] == 200


async def test_the_hour_of_several_is_one_question_and_leaves_out_what_is_not_theirs(rig: Rig) -> None:
    async def hour(request: web.Request) -> web.StreamResponse:
        assert request.query_string == "now=false", "no guest is asked"
        sample = {"memory_used_bytes": 7, "load1": 1}
        return web.json_response({"now": None, "reason": None, "interval_s": 30,
                                  "history": [{"at": str(n), "cpu_percent": n, **sample} for n in range(120)]})
    rig.hostd.handler = hour
    where = f"/api/v1/metrics?ids={WID},{OTHERS},{WID}"
    status, said = await ask(rig, "GET", where, AUTH)
    (mine,) = said["results"]
    assert (status, mine["workspace"], mine["interval_s"], len(mine["history"])) == (200, WID, 90, 40)
    assert mine["history"][-1] == {"at": "119", "cpu_percent": 119, "memory_used_bytes": 7, "memory_total_bytes": None}
    assert rig.books.wakes == [] and rig.books.touches == []
    assert (await ask(rig, "GET", where))[0] == 401 and (await ask(rig, "POST", where, AUTH))[0] == 405
    for wrong in ("", "?ids=", "?ids=" + ",".join(["x"] * 101)):
        assert (await ask(rig, "GET", f"/api/v1/metrics{wrong}", AUTH))[1]["code"] == "invalid"
    rig.books.tokens[TOKEN] = scoped("exec")
    rig.app.gate.access.forget("token", "")
    assert (await ask(rig, "GET", where, AUTH))[1]["code"] == "scope_missing"
