"""The events sockets by themselves, over Channels' own test client: nudges that double, get lost or lie."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator

from workspaces import events, tokens
from workspaces.actors import SCOPES
from workspaces.live.feed import Feed
from workspaces.live.routing import websocket_urlpatterns
from workspaces.models import AccessToken, User, Workspace

pytestmark = pytest.mark.django_db(transaction=True)
APP = URLRouter(websocket_urlpatterns)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Feed, "look_every_s", 30.0)
    monkeypatch.setattr(Feed, "look_apart_s", 0.01)


@database_sync_to_async
def person(name: str, scopes: frozenset[str] = SCOPES - {"admin"}) -> tuple[User, str, Workspace]:
    user, _ = User.objects.get_or_create(username=name)
    _token, secret = tokens.create(user, "test", scopes)
    return user, secret, Workspace.objects.create(owner=user, name=f"of {name} {len(scopes)}")


append = database_sync_to_async(events.append)


def socket(path: str, secret: str | None, **headers: str) -> WebsocketCommunicator:
    given = [(b"host", b"localhost")] + ([(b"authorization", f"Bearer {secret}".encode())] if secret else [])
    return WebsocketCommunicator(APP, path, given + [(k.encode(), v.encode()) for k, v in headers.items()])


async def heard(communicator: WebsocketCommunicator, count: int) -> list[Any]:
    return [json.loads(await communicator.receive_from(5)) for _ in range(count)]


async def test_events_of_one_burst_come_once_each_in_order() -> None:
    _user, secret, workspace = await person("anna")
    for n in range(450):
        await append(workspace, "file.written", data={"n": n})
    communicator = socket(f"/ws/v1/workspaces/{workspace.pk}/events?after=10", secret)
    assert (await communicator.connect())[0]
    assert [event["seq"] for event in await heard(communicator, 440)] == list(range(11, 451))
    for _ in range(20):
        await get_channel_layer().group_send(f"workspace.{workspace.pk}", {"type": "berth.nudge", "seq": 1})
    await append(workspace, "exec.ended")
    assert (await heard(communicator, 1))[0]["seq"] == 451
    assert await communicator.receive_nothing(0.2)
    await communicator.disconnect()


async def test_a_lost_nudge_is_made_good_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Feed, "look_every_s", 0.1)
    monkeypatch.setattr("workspaces.nudges._to_groups", lambda *_: None)
    _user, secret, workspace = await person("anna")
    communicator = socket(f"/ws/v1/workspaces/{workspace.pk}/events", secret)
    assert (await communicator.connect())[0]
    await append(workspace, "exec.started")
    assert (await heard(communicator, 1))[0]["kind"] == "exec.started"
    await communicator.disconnect()


@pytest.mark.parametrize("path", ["/ws/v1/events", "/ws/v1/workspaces/{id}/events"])
async def test_strangers_scopes_and_odd_numbers_are_refused_before_accept(path: str) -> None:
    _user, secret, workspace = await person("anna")
    _same, lame, _other = await person("anna", frozenset({"exec"}))
    _bob, stranger, _theirs = await person("bob")
    own = path.format(id=workspace.pk)
    for refused in [socket(own, None), socket(own, "berth_nobody"), socket(own, lame)]:
        assert not (await refused.connect())[0]
    if "{id}" in path:
        for refused in [socket(own, stranger), socket(f"{own}?after=x", secret), socket(f"{own}?after=-1", secret),
                        socket(f"{own}?after=" + "9" * 40, secret)]:
            assert not (await refused.connect())[0]


@pytest.mark.parametrize("origin", [None, "null", "https://localhost", "http://localhost:1", "http://evil.example",
                                    "http://3000--aaaaaaaaaaaaaaaaaaaa.preview.localhost"])
async def test_a_cookie_needs_our_exact_origin(client: Any, origin: str | None) -> None:
    user, _secret, _workspace = await person("anna")
    await database_sync_to_async(client.force_login)(user)
    cookie = "; ".join(f"{k}={m.value}" for k, m in client.cookies.items())
    headers = {"cookie": cookie, **({"origin": origin} if origin else {})}
    assert not (await socket("/ws/v1/events", None, **headers).connect())[0]
    ours = socket("/ws/v1/events", None, cookie=cookie, origin="http://localhost")
    assert (await ours.connect())[0]
    assert await heard(ours, 1) == [{"type": "hello"}]
    await ours.disconnect()


@pytest.mark.parametrize(("what", "code"), [("token", 4401), ("workspace", 4404)])
async def test_permission_is_asked_again_before_every_batch(what: str, code: int) -> None:
    _user, secret, workspace = await person("anna")
    communicator = socket(f"/ws/v1/workspaces/{workspace.pk}/events", secret)
    assert (await communicator.connect())[0]
    await append(workspace, "a.first")
    await heard(communicator, 1)

    def revoke() -> None:
        if what == "token":
            AccessToken.objects.update(revoked_at=workspace.created_at)
        else:
            bob, _ = User.objects.get_or_create(username="bob")
            Workspace.objects.filter(pk=workspace.pk).update(owner=bob)
    await database_sync_to_async(revoke)()
    await append(workspace, "a.secret")
    assert await communicator.receive_output(5) == {"type": "websocket.close", "code": code}


async def test_a_socket_that_ends_leaves_no_task_and_no_group() -> None:
    _user, secret, workspace = await person("anna")
    before = len(asyncio.all_tasks())
    for _ in range(20):
        communicator = socket(f"/ws/v1/workspaces/{workspace.pk}/events", secret)
        assert (await communicator.connect())[0]
        await communicator.disconnect()
    assert len(asyncio.all_tasks()) <= before + 1
    assert not get_channel_layer().groups.get(f"workspace.{workspace.pk}")


async def test_who_reads_the_list_in_pages_is_sent_only_what_changes_after_the_greeting() -> None:
    _user, secret, workspace = await person("anna")
    communicator = socket("/ws/v1/events?snapshot=false", secret)
    assert (await communicator.connect())[0]
    assert await heard(communicator, 1) == [{"type": "hello"}]
    assert await communicator.receive_nothing(0.2)
    await append(workspace, "workspace.changed")
    (told,) = await heard(communicator, 1)
    assert (told["type"], told["workspace"]["id"]) == ("workspace", workspace.pk)
    await communicator.disconnect()
    assert not (await socket("/ws/v1/events?snapshot=maybe", secret).connect())[0]
