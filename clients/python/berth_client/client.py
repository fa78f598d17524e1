"""The two doors: `Berth` for callers who wait, `AsyncBerth` for those who await; the same calls behind both.

    with Berth() as berth:
        made = berth.workspaces.create("first", wait_s=60)
        ended = berth.workspace(made).run("python3 -c 'print(6 * 7)'")

Put together here and nowhere else: acts (what is asked), a hand (who asks), streams (what lasts).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from berth_client import config
from berth_client.act import Awaiting, Waiting
from berth_client.acts.account import HoldsActs, TokensActs
from berth_client.acts.checkpoints import CheckpointsActs
from berth_client.acts.network import NetworkActs
from berth_client.acts.people import ApprovalsActs, MembersActs
from berth_client.acts.ports import PortsActs
from berth_client.acts.workspaces import WORKSPACES, WorkspacesActs
from berth_client.client_admin import Admin, AsyncAdmin
from berth_client.feed import socket_path
from berth_client.hands import SyncHand
from berth_client.hands_async import AsyncHand
from berth_client.model import Workspace
from berth_client.retry import Retry
from berth_client.sent import Link
from berth_client.streams import Execs, Files, WorkspaceFeeds
from berth_client.streams_async import AsyncExecs, AsyncFiles, AsyncWorkspaceFeeds
from berth_client.terminal import Terminal
from berth_client.tunnel import Tunnel
from berth_client.wire import API, encoded


class Workspaces(WorkspacesActs, Waiting):
    """All of them."""


class Checkpoints(CheckpointsActs, Waiting):
    """A workspace's points to come back to."""


class Ports(PortsActs, Waiting):
    """What listens in a workspace."""


class NetworkDoor(NetworkActs, Waiting):
    """What a workspace may reach, and what it did."""


class Holds(HoldsActs, Waiting):
    """What keeps a workspace awake."""


class Members(MembersActs, Waiting):
    """Who is in a workspace."""


class Approvals(ApprovalsActs, Waiting):
    """What waits for a member."""


class Tokens(TokensActs, Waiting):
    """One's own tokens."""


class AsyncWorkspaces(WorkspacesActs, Awaiting):
    """All of them."""


class AsyncCheckpoints(CheckpointsActs, Awaiting):
    """A workspace's points to come back to."""


class AsyncPorts(PortsActs, Awaiting):
    """What listens in a workspace."""


class AsyncNetworkDoor(NetworkActs, Awaiting):
    """What a workspace may reach, and what it did."""


class AsyncHolds(HoldsActs, Awaiting):
    """What keeps a workspace awake."""


class AsyncMembers(MembersActs, Awaiting):
    """Who is in a workspace."""


class AsyncApprovals(ApprovalsActs, Awaiting):
    """What waits for a member."""


class AsyncTokens(TokensActs, Awaiting):
    """One's own tokens."""


class OneWorkspace(WorkspaceFeeds):
    """One workspace's door: its life here, the rest by subject. It holds no state of the workspace."""

    def __init__(self, hand: SyncHand, workspace_id: str) -> None:
        self.id = workspace_id
        super().__init__(hand, f"{WORKSPACES}/{encoded(workspace_id)}")
        self.execs = Execs(hand, f"{self._at}/execs")
        self.files = Files(hand, f"{self._at}/files")
        self.checkpoints = Checkpoints(hand, self._at)
        self.ports = Ports(hand, f"{self._at}/ports")
        self.network = NetworkDoor(hand, f"{self._at}/network")
        self.holds = Holds(hand, f"{self._at}/holds")
        self.members = Members(hand, f"{self._at}/members")
        self.approvals = Approvals(hand, f"{self._at}/approvals")
        self.run = self.execs.run


class AsyncOneWorkspace(AsyncWorkspaceFeeds):
    """One workspace's door: its life here, the rest by subject. It holds no state of the workspace."""

    def __init__(self, hand: AsyncHand, workspace_id: str) -> None:
        self.id = workspace_id
        super().__init__(hand, f"{WORKSPACES}/{encoded(workspace_id)}")
        self.execs = AsyncExecs(hand, f"{self._at}/execs")
        self.files = AsyncFiles(hand, f"{self._at}/files")
        self.checkpoints = AsyncCheckpoints(hand, self._at)
        self.ports = AsyncPorts(hand, f"{self._at}/ports")
        self.network = AsyncNetworkDoor(hand, f"{self._at}/network")
        self.holds = AsyncHolds(hand, f"{self._at}/holds")
        self.members = AsyncMembers(hand, f"{self._at}/members")
        self.approvals = AsyncApprovals(hand, f"{self._at}/approvals")
        self.run = self.execs.run

    def terminal(self, exec_id: str, *, offset: int = 0) -> Terminal:
        """`async with` it: the screen and keyboard of an exec that was started with `tty`."""
        return Terminal(self._hand, socket_path(self._at), exec_id, offset)

    def tunnel(self, port: int) -> Tunnel:
        """`async with` it: one TCP connection to 127.0.0.1:port in the guest."""
        return Tunnel(self._hand, socket_path(self._at), port)


class Berth:
    """`url` and `token` default to BERTH_URL and BERTH_TOKEN, then to what `berth-cli login` kept. `httpx_options`
    go to `httpx.Client`: verify, proxy, trust_env, transport."""

    def __init__(self, url: str | None = None, token: str | None = None, *, retry: Retry | None = None,
                 **httpx_options: Any) -> None:
        hand = self._hand = SyncHand(_link(url, token, retry, httpx_options))
        self.url = hand.link.base_url
        self.workspaces = Workspaces(hand, WORKSPACES)
        self.tokens = Tokens(hand, f"{API}/tokens")
        self.admin = Admin(hand)
        self.me = self.workspaces.me

    def workspace(self, which: Workspace | str) -> OneWorkspace:
        """By id (asks nothing of the server). `workspaces.named()` finds one by its name."""
        return OneWorkspace(self._hand, which if isinstance(which, str) else which.id)

    def close(self) -> None:
        self._hand.close()

    def __enter__(self) -> Berth:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Berth({self.url!r})"


class AsyncBerth:
    """`Berth` for an event loop; the same calls, awaited, and terminals and tunnels besides."""

    def __init__(self, url: str | None = None, token: str | None = None, *, retry: Retry | None = None,
                 **httpx_options: Any) -> None:
        hand = self._hand = AsyncHand(_link(url, token, retry, httpx_options))
        self.url = hand.link.base_url
        self.workspaces = AsyncWorkspaces(hand, WORKSPACES)
        self.tokens = AsyncTokens(hand, f"{API}/tokens")
        self.admin = AsyncAdmin(hand)
        self.me = self.workspaces.me

    def workspace(self, which: Workspace | str) -> AsyncOneWorkspace:
        """By id (asks nothing of the server). `workspaces.named()` finds one by its name."""
        return AsyncOneWorkspace(self._hand, which if isinstance(which, str) else which.id)

    async def close(self) -> None:
        await self._hand.close()

    async def __aenter__(self) -> AsyncBerth:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncBerth({self.url!r})"


def _link(url: str | None, token: str | None, retry: Retry | None, options: dict[str, Any]) -> Link:
    access = config.resolve(url, token)
    return Link(access.url, access.token, retry or Retry(), options)
