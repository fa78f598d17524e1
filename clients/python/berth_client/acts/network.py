"""What a workspace may reach, and what it did reach. Base of the classes in `client`; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model_network import Attempt, Network
from berth_client.shape import of, read
from berth_client.wire import Steps


class NetworkActs(Place):
    """`_at` is …/workspaces/{id}/network."""

    @act
    def get(self) -> Steps[Network]:
        return read(Network, (yield wire.get(self._at)).json())

    @act
    def set(self, policy: Mapping[str, Any], *, revision: int | None = None) -> Steps[Network]:
        """`{"mode": "rules", "rules": [{"domain": "pypi.org"}]}`, live. With `revision` only over that one: raises
        PreconditionFailed when somebody changed it since."""
        request = wire.put(self._at, policy)
        if revision is not None:
            request = replace(request, headers=(*request.headers, ("If-Match", f'"{revision}"')))
        return read(Network, (yield request).json())

    @act
    def recent(self, *, verdict: str | None = None, limit: int | None = None) -> Steps[list[Attempt]]:
        """The newest attempts, oldest of them first; `verdict` is allowed, refused or asked."""
        answer = yield wire.get(f"{self._at}/log", verdict=verdict, limit=limit)
        return [read(Attempt, one) for one in answer.json()["results"]]

    @pages
    def log(self, *, after: int = 0, verdict: str | None = None) -> Pages[Attempt]:
        """Every attempt that is still written down, oldest first, after that number."""
        return Pages(wire.get(f"{self._at}/log", after=after, verdict=verdict, limit=200), of(Attempt))
