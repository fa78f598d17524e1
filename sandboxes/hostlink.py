"""Talks to one hostd: HTTP with JSON over a Unix socket, synchronous, bounded waits. Called by machines, plans and
the courier. Knows docs/interfaces.md section 2 and turns hostd's error codes back into `sandboxes.errors`.

Everything here may be repeated; nothing here is retried (the plan runner does that, with a memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx

from sandboxes import errors
from sandboxes.lifecycle import OperationKind

CONNECT_S = 1.0
#: On top of what a call asks hostd to wait for. A host that is slower counts as away, and is asked again.
ANSWER_S = 2.5
MAX_DETAIL = 400

_CLASSES: dict[str, type[errors.SandboxError]] = {
    cls.code: cls for cls in (
        errors.Invalid, errors.NotFound, errors.NotRunning, errors.StaleGeneration, errors.Busy, errors.Conflict,
        errors.AgentLost, errors.DiskFull, errors.NoCapacity, errors.HostUnreachable, errors.StepFailed)
}


def error_from_json(body: dict[str, Any] | None) -> errors.SandboxError:
    """The exception that hostd's `{"code","detail",…}` stands for. An unknown code is kept as a word."""
    said = dict(body or {})
    code = str(said.pop("code", "internal"))
    detail = str(said.pop("detail", ""))[:MAX_DETAIL]
    retry = said.pop("retry_after_s", None)
    cls = _CLASSES.get(code, errors.SandboxError)
    return cls(detail, code=code, reason=said.pop("reason", None), retry_after_s=retry)


class HostLink:
    """One host's door. Thread-safe; keeps connections open."""

    def __init__(self, address: str) -> None:
        kind, _, place = address.partition(":")
        if kind == "unix":
            self._client = httpx.Client(transport=httpx.HTTPTransport(uds=place), base_url="http://hostd")
        elif kind == "https":
            self._client = httpx.Client(base_url=address)
        else:
            raise errors.Invalid(f"a host's address is unix:/path or https://…, not {address!r}")

    def host(self) -> dict[str, Any]:
        return self._get("/v1/host")

    def machines(self) -> list[dict[str, Any]]:
        """Of each its id, generation, phase and work."""
        return list(self._get("/v1/machines", brief="true")["results"])

    def observe(self, machine_id: str) -> dict[str, Any]:
        """What is true of a machine now; one that is not there has the phase `absent`."""
        return self._get(f"/v1/machines/{machine_id}")

    def start_operation(self, machine_id: str, operation_id: str, kind: OperationKind, generation: int,
                        **fields: Any) -> dict[str, Any]:
        """`fields`: what this kind needs besides (`spec`, `grace_s`, `checkpoint_id`, `memory`, `source`, …)."""
        body: dict[str, Any] = {"operation_id": operation_id, "kind": kind.value, "generation": generation, **fields}
        return self._call("POST", f"/v1/machines/{machine_id}/operations", json=body)

    def operation(self, machine_id: str, operation_id: str, wait_s: float = 0) -> dict[str, Any]:
        """With `machine`, what is true of it, once it is done."""
        return self._get(f"/v1/machines/{machine_id}/operations/{operation_id}", wait_s=wait_s, observe="true")

    def put_network(self, machine_id: str, document: Mapping[str, Any]) -> int:
        """The revision that is kept now: this document's, or a newer one's."""
        said = self._call("PUT", f"/v1/machines/{machine_id}/network", json={"document": document})
        return int(said["revision"])

    def refuse_ask(self, machine_id: str, ask_id: str) -> None:
        """A connection that waits for a member's word is told no. Raises NotFound when it waits no more."""
        self._call("POST", f"/v1/machines/{machine_id}/network/asks/{ask_id}", json={"decision": "deny"})

    def feed(self, after: int, wait_s: float) -> dict[str, Any]:
        return self._get("/v1/feed", wait_s=wait_s, after=after)

    def close(self) -> None:
        self._client.close()

    def _get(self, path: str, wait_s: float = 0, **params: Any) -> dict[str, Any]:
        if wait_s:
            params["wait_s"] = f"{wait_s:.2f}"
        return self._call("GET", path, wait_s=wait_s, params=params)

    def _call(self, method: str, path: str, wait_s: float = 0, **how: Any) -> dict[str, Any]:
        timeout = httpx.Timeout(ANSWER_S + wait_s, connect=CONNECT_S)
        try:
            response = self._client.request(method, path, timeout=timeout, **how)
        except httpx.HTTPError as error:
            raise errors.HostUnreachable(f"{type(error).__name__}: {error}"[:MAX_DETAIL]) from error
        return self._understood(response)

    @staticmethod
    def _understood(response: httpx.Response) -> dict[str, Any]:
        try:
            body = response.json()
        except ValueError as error:
            raise errors.HostUnreachable(f"hostd answered {response.status_code} without JSON") from error
        if response.is_success:
            return dict(body)
        raise error_from_json(body)


@lru_cache(maxsize=256)
def link_to(address: str) -> HostLink:
    """The one link of this process to that address (making a client costs more than a call)."""
    return HostLink(address)
