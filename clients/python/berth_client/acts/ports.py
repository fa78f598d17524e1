"""What listens in a workspace, and who else may reach it. Base of the classes in `client`; pure.

The tunnel to a port is a socket: `tunnel`.
"""

from __future__ import annotations

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model import Port, Share
from berth_client.shape import of, read
from berth_client.wire import Steps, given


class PortsActs(Place):
    """`_at` is …/workspaces/{id}/ports."""

    @pages
    def list(self) -> Pages[Port]:
        """TCP ports that something in the guest listens on."""
        return Pages(wire.get(self._at), of(Port))

    @act
    def share(self, port: int, visibility: str, *, expires_in_s: int | None = None) -> Steps[Share]:
        """`visibility` is private, signed_in or public."""
        said = given(visibility=visibility, expires_in_s=expires_in_s)
        return read(Share, (yield wire.once(wire.post(f"{self._at}/{port}/share", said))).json())

    @act
    def unshare(self, port: int) -> Steps[None]:
        """At once, open sockets included."""
        yield wire.delete(f"{self._at}/{port}/share")
