"""Workspaces: many (`WorkspacesActs`) and one (`WorkspaceActs`). Base of the classes in `client`; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model import Event, Me, Workspace
from berth_client.problems import NotFound, WaitTimeout, WorkspaceFailed
from berth_client.shape import of, read
from berth_client.wire import API, SLACK_S, Json, Request, Steps, given, sleep

WORKSPACES = f"{API}/workspaces"
LOOK_FIRST_S, LOOK_LONGEST_S = 0.2, 2.0


class WorkspacesActs(Place):
    @act
    def create(self, name: str, *, image: str | None = None, cpus: int | None = None, memory_mib: int | None = None,
               disk_gib: int | None = None, env: Mapping[str, str] | None = None,
               labels: Mapping[str, str] | None = None, idle: Json | None = None, network: Json | None = None,
               secrets: Sequence[Json] | None = None, gpu: Json | None = None, approvals: Json | None = None,
               from_checkpoint: str | None = None, wait_s: float = 0,
               idempotency_key: str | None = None) -> Steps[Workspace]:
        """A new workspace, as it is after at most `wait_s` (it goes on being made: not there yet is no error)."""
        said = given(name=name, image=image, cpus=cpus, memory_mib=memory_mib, disk_gib=disk_gib, env=env,
                     labels=labels, idle=idle, network=network, secrets=secrets, gpu=gpu, approvals=approvals,
                     from_checkpoint=from_checkpoint)
        answer = yield changing(WORKSPACES, said, wait_s, idempotency_key)
        return read(Workspace, answer.json())

    @act
    def get(self, workspace_id: str) -> Steps[Workspace]:
        return read(Workspace, (yield wire.get(f"{WORKSPACES}/{wire.encoded(workspace_id)}")).json())

    @pages
    def list(self, *, state: str | None = None, name: str | None = None, owner: str | None = None,
             labels: Mapping[str, str] | None = None, limit: int | None = None) -> Pages[Workspace]:
        """Every workspace one may see, newest first; the trash with `state="deleted"`. `limit` is of one page."""
        query = {"state": state, "name": name, "owner": owner, "limit": limit,
                 **{f"label.{key}": value for key, value in (labels or {}).items()}}
        return Pages(Request("GET", WORKSPACES, wire.queried(query)), of(Workspace))

    @act
    def named(self, name: str, *, owner: str | None = None) -> Steps[Workspace]:
        """The one of that name; raises NotFound, or NotFound that says so when several people have one."""
        answer = (yield wire.get(WORKSPACES, name=name, owner=owner, limit=3)).json()
        found = [read(Workspace, one) for one in answer["results"]]
        if len(found) == 1:
            return found[0]
        detail = f"There is no workspace named {name!r}." if not found else \
            f"Several people have a workspace named {name!r}: {', '.join(f'{one.owner}/{name}' for one in found)}."
        raise NotFound(404, {"code": "not_found", "detail": detail})

    @act
    def me(self) -> Steps[Me]:
        """Who this token is, what it may use and what is used."""
        return read(Me, (yield wire.get(f"{API}/me")).json())


class WorkspaceActs(Place):
    """One workspace; `_at` is its path."""

    @act
    def get(self) -> Steps[Workspace]:
        return read(Workspace, (yield wire.get(self._at)).json())

    @act
    def patch(self, *, name: str | None = None, env: Mapping[str, str] | None = None,
              labels: Mapping[str, str] | None = None, idle: Json | None = None, network: Json | None = None,
              secrets: list[Json] | None = None, cpus: int | None = None, memory_mib: int | None = None,
              disk_gib: int | None = None, gpu: Json | None = None, approvals: Json | None = None) -> Steps[Workspace]:
        """What is given is set whole; the shape only while it is stopped, and a disk only grows."""
        said = given(name=name, env=env, labels=labels, idle=idle, network=network, secrets=secrets, cpus=cpus,
                     memory_mib=memory_mib, disk_gib=disk_gib, gpu=gpu, approvals=approvals)
        return read(Workspace, (yield wire.patch(self._at, said)).json())

    @act
    def start(self, *, wait_s: float = 0, idempotency_key: str | None = None) -> Steps[Workspace]:
        return (yield from self._verb("start", wait_s, idempotency_key))

    @act
    def stop(self, *, wait_s: float = 0, idempotency_key: str | None = None) -> Steps[Workspace]:
        return (yield from self._verb("stop", wait_s, idempotency_key))

    @act
    def standby(self, *, wait_s: float = 0, idempotency_key: str | None = None) -> Steps[Workspace]:
        """To rest with its memory; the next call of any kind wakes it."""
        return (yield from self._verb("standby", wait_s, idempotency_key))

    @act
    def restart(self, *, wait_s: float = 0, idempotency_key: str | None = None) -> Steps[Workspace]:
        return (yield from self._verb("restart", wait_s, idempotency_key))

    @act
    def undelete(self, *, wait_s: float = 0, idempotency_key: str | None = None) -> Steps[Workspace]:
        return (yield from self._verb("undelete", wait_s, idempotency_key))

    @act
    def delete(self, *, purge: bool = False, wait_s: float = 0) -> Steps[Workspace]:
        """Into the trash; with `purge` for good."""
        answer = yield wire.delete(self._at, read_timeout_s=wait_s + SLACK_S, purge=purge or None, **waiting(wait_s))
        return read(Workspace, answer.json())

    @act
    def fork(self, name: str, *, checkpoint: str | None = None, count: int | None = None, wait_s: float = 0,
             idempotency_key: str | None = None) -> Steps[list[Workspace]]:
        """Others of it, of now or of a checkpoint, with memory where there is any; this one goes on."""
        said = given(name=name, checkpoint=checkpoint, count=count)
        answer = yield changing(f"{self._at}/fork", said, wait_s, idempotency_key)
        return [read(Workspace, one) for one in answer.json()["results"]]

    @act
    def wait(self, *states: str, give_up_after_s: float = 120) -> Steps[Workspace]:
        """Until it is in one of the states (`running` when none is named).

        Raises WorkspaceFailed when it fails instead, WaitTimeout when the time is over.
        """
        return (yield from wait_until(self._at, states or ("running",), give_up_after_s))

    @act
    def metrics(self) -> Steps[Json]:
        """What it uses, now and over the last hour; never wakes it."""
        return (yield wire.get(f"{self._at}/metrics")).json()

    @pages
    def past_events(self, *, after: int = 0, limit: int | None = None) -> Pages[Event]:
        """What happened after event `after`, up to now; `events()` goes on and waits for more."""
        return Pages(wire.get(f"{self._at}/events", after=after, limit=limit), of(Event))

    def _verb(self, verb: str, wait_s: float, key: str | None) -> Steps[Workspace]:
        return read(Workspace, (yield changing(f"{self._at}/{verb}", {}, wait_s, key)).json())


def changing(path: str, said: Mapping[str, Any], wait_s: float, key: str | None) -> Request:
    return wire.post(path, said, key=key, read_timeout_s=wait_s + SLACK_S, **waiting(wait_s))


def waiting(wait_s: float) -> dict[str, float | bool]:
    return {"wait": True, "timeout_s": wait_s} if wait_s > 0 else {}


def wait_until(path: str, states: Collection[str], give_up_after_s: float) -> Steps[Workspace]:
    waited_s, pause_s = 0.0, LOOK_FIRST_S
    while True:
        seen = read(Workspace, (yield wire.get(path)).json())
        if seen.state in states:
            return seen
        if seen.state == "failed":
            raise WorkspaceFailed(seen)
        if waited_s >= give_up_after_s:
            raise WaitTimeout(f"It is still {seen.state} after {give_up_after_s:g} s.", seen)
        yield from sleep(pause_s)
        waited_s, pause_s = waited_s + pause_s, min(pause_s * 1.5, LOOK_LONGEST_S)
