"""Fixtures of upstairs' tests: people, clients, a real hostd with the fake driver, and reconcile without Celery.

`bell` keeps what was rung instead of sending it anywhere; `converge` does what workers would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from sandboxes import machines
from tests.upstairs.hostd import Hostd
from workspaces import jobs, policies, reconcile, selectors, services, tokens, wake
from workspaces.actors import Actor
from workspaces.models import User, Workspace

HOST = "localhost:8000"


@pytest.fixture(autouse=True)
def bell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    rung: list[str] = []
    monkeypatch.setattr(wake, "ring", rung.append)
    return rung


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn's budget is for workers; on a busy machine it would make a test's one turn two."""
    monkeypatch.setattr(jobs, "BUDGET_S", 600.0)


@pytest.fixture(scope="session")
def running_hostd() -> Iterator[Hostd]:
    hostd = Hostd()
    hostd.start()
    yield hostd
    hostd.stop()


@pytest.fixture
def hostd(running_hostd: Hostd, db: None) -> Iterator[Hostd]:
    """The hostd, registered as the only host; its machines are gone afterwards."""
    machines.register_host("local", "local", running_hostd.address)
    yield running_hostd
    running_hostd.clear()


@pytest.fixture(scope="session")
def running_sleepy() -> Iterator[Hostd]:
    hostd = Hostd("tests.upstairs.sleepy")
    hostd.start()
    yield hostd
    hostd.stop()


@pytest.fixture
def sleepy(running_sleepy: Hostd, db: None) -> Iterator[Hostd]:
    """A hostd that keeps memory images, registered as the only host; its machines are gone afterwards."""
    machines.register_host("local", "local", running_sleepy.address)
    yield running_sleepy
    running_sleepy.clear()


@pytest.fixture
def box(sleepy: Hostd, ann: User) -> Workspace:
    """A workspace of ann's that runs on a host that keeps memory."""
    found = converge(make(ann).pk)
    assert found is not None and found.state == "running"
    return found


def person(name: str, admin: bool = False) -> User:
    return User.objects.create_user(name, password=f"pass-of-{name}", is_superuser=admin, is_staff=admin)


@pytest.fixture
def ann(db: None) -> User:
    return person("ann")


@pytest.fixture
def bob(db: None) -> User:
    return person("bob")


@pytest.fixture
def root(db: None) -> User:
    return person("root", admin=True)


def actor(user: User) -> Actor:
    return selectors.actor_of_user(user)


class Api:
    """A program with a token: JSON in, JSON out."""

    def __init__(self, user: User, *scopes: str, **limits: Any) -> None:
        row, self.secret = tokens.create(user, "test", scopes or selectors.actor_of_user(user).scopes, **limits)
        self.token_id = row.pk
        self._client = Client(enforce_csrf_checks=True)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        said = {"authorization": f"Bearer {self.secret}", "host": HOST, **headers}
        path = path if path.startswith("/") else f"/api/v1/{path}"
        return self._client.generic(method, path, b"" if body is None else encoded(body),
                                    content_type="application/json" if body is not None else "",
                                    headers={k.replace("_", "-"): v for k, v in said.items()})


def encoded(body: Any) -> bytes:
    import json

    return body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture
def api(ann: User) -> Api:
    return Api(ann)


def make(user: User, name: str = "box", **fields: Any) -> Workspace:
    return services.create(actor(user), {"name": name, "network": {"mode": "deny-all"}, **fields})


def converge(workspace_id: str, deadline_s: float = 30.0) -> Workspace | None:
    """Reconciles as workers would, until nothing is left to do."""
    end = time.monotonic() + deadline_s
    while True:
        again = reconcile.reconcile(workspace_id)
        if again is reconcile.Again.NO:
            return Workspace.objects.filter(pk=workspace_id).first()
        assert time.monotonic() < end, f"{workspace_id} does not come to rest"
        if again is reconcile.Again.LATER:
            time.sleep(0.05)


@pytest.fixture
def running(hostd: Hostd, ann: User) -> Workspace:
    """A workspace of ann's that runs."""
    workspace = make(ann)
    found = converge(workspace.pk)
    assert found is not None and found.state == "running"
    return found


def eventually(what: str, look: Callable[[], Any], deadline_s: float = 30.0) -> Any:
    end = time.monotonic() + deadline_s
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.02)


@pytest.fixture
def asleep(ann: User) -> Workspace:
    """Stopped, as far as its row knows; no host is needed."""
    row, _ = services.stop(actor(ann), make(ann))
    Workspace.objects.filter(pk=row.pk).update(state="stopped")
    return Workspace.objects.get(pk=row.pk)


@pytest.fixture
def short(root: User) -> None:
    policies.put(actor(root), "default", {
        "stop_after_s": {"value": 3600}, "trash_after_s": {"value": 7200}, "notice_s": {"value": 1800},
        "purge_after_s": {"value": 86400}})
