"""Checkpoints of a workspace: take, look into, compare, go back. Base of the classes in `client`; pure.

`_at` is the workspace's path. `cid` may be `head` where something is read: the disk as it is now.
"""

from __future__ import annotations

from datetime import datetime

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.acts.files import entries, parsed_file
from berth_client.acts.workspaces import changing
from berth_client.model import Change, Checkpoint, File, Workspace
from berth_client.shape import of, read
from berth_client.wire import GuestPath, Steps, given

LOOK_S = 330.0


class CheckpointsActs(Place):
    @act
    def create(self, name: str | None = None, *, comment: str | None = None, memory: bool | None = None,
               wait_s: float = 60, idempotency_key: str | None = None) -> Steps[Checkpoint]:
        """A point to come back to; what runs goes on. As it is after at most `wait_s`: look at its `state`."""
        said = given(name=name, comment=comment, memory=memory)
        return read(Checkpoint, (yield changing(f"{self._at}/checkpoints", said, wait_s, idempotency_key)).json())

    @pages
    def list(self, *, kind: str | None = None, state: str | None = None, name: str | None = None,
             limit: int | None = None) -> Pages[Checkpoint]:
        """Newest first."""
        return Pages(wire.get(f"{self._at}/checkpoints", kind=kind, state=state, name=name, limit=limit),
                     of(Checkpoint))

    @act
    def get(self, cid: str) -> Steps[Checkpoint]:
        return read(Checkpoint, (yield wire.get(self._path(cid))).json())

    @act
    def patch(self, cid: str, *, name: str | None = None, comment: str | None = None,
              expires_at: datetime | None = None) -> Steps[Checkpoint]:
        said = given(name=name, comment=comment, expires_at=expires_at.isoformat() if expires_at else None)
        return read(Checkpoint, (yield wire.patch(self._path(cid), said)).json())

    @act
    def delete(self, cid: str) -> Steps[None]:
        yield wire.delete(self._path(cid))

    @act
    def restore(self, cid: str, *, safety: bool = True, wait_s: float = 120,
                idempotency_key: str | None = None) -> Steps[Workspace]:
        """Back to it, in place. The answer's `safety_checkpoint` undoes it."""
        answer = yield changing(f"{self._path(cid)}/restore", {"safety": safety}, wait_s, idempotency_key)
        return read(Workspace, answer.json())

    @pages
    def diff(self, cid: str, *, against: str = "head", limit: int | None = None) -> Pages[Change]:
        """What changed from `cid` to `against`, in the order of the paths' bytes."""
        return Pages(wire.get(f"{self._path(cid)}/diff", against=against, limit=limit, read_timeout_s=LOOK_S),
                     of(Change))

    @pages
    def files(self, cid: str, path: GuestPath, *, recursive: bool = False) -> Pages[File]:
        """What a folder held then; wakes and restores nothing."""
        return entries(f"{self._path(cid)}/files", path, recursive, None, LOOK_S)

    @act
    def stat(self, cid: str, path: GuestPath) -> Steps[File]:
        return parsed_file((yield wire.get(f"{self._path(cid)}/files", path=path, limit=1, read_timeout_s=LOOK_S)))

    @act
    def read(self, cid: str, path: GuestPath) -> Steps[bytes]:
        """A file's bytes as they were then."""
        return (yield wire.get(f"{self._path(cid)}/files/content", path=path, read_timeout_s=LOOK_S)).body

    def _path(self, cid: str) -> str:
        return f"{self._at}/checkpoints/{wire.encoded(cid)}"
