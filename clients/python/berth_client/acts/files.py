"""Files of a workspace, the calls that fit into one answer. Base of `Files` and `AsyncFiles`; pure.

`_at` is …/workspaces/{id}/files. What is of any size (downloads, uploads, archives) is in `transfer` and the hands.
"""

from __future__ import annotations

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model import File, Found, Written
from berth_client.problems import NoSuchFile
from berth_client.shape import of, read
from berth_client.wire import READ_S, Answer, GuestPath, Json, Request, Steps, given, path_fields

#: A file call may have to wake the workspace first.
WAKE_S = 120.0
ARCHIVE_S = 600.0


class FilesActs(Place):
    @act
    def stat(self, path: GuestPath, *, user: str | None = None) -> Steps[File]:
        return parsed_file((yield self._get("", path, user, limit=1)))

    @act
    def exists(self, path: GuestPath, *, user: str | None = None) -> Steps[bool]:
        try:
            yield self._get("", path, user, limit=1)
        except NoSuchFile:
            return False
        return True

    @pages
    def list(self, path: GuestPath, *, recursive: bool = False, user: str | None = None) -> Pages[File]:
        """What is in a folder; with `recursive` everything below. A file is its own only entry."""
        return entries(self._at, path, recursive, user, WAKE_S)

    @act
    def read(self, path: GuestPath, *, user: str | None = None) -> Steps[bytes]:
        """All of a file, in memory; `download` and `stream` are for any size."""
        return (yield self._get("/content", path, user)).body

    @act
    def read_text(self, path: GuestPath, *, user: str | None = None) -> Steps[str]:
        return (yield self._get("/content", path, user)).body.decode()

    @act
    def write(self, path: GuestPath, data: str | bytes, *, mode: str | None = None, parents: bool = False,
              if_match: str | None = None, only_new: bool = False, user: str | None = None) -> Steps[Written]:
        """The whole file or nothing. `if_match` (an ETag) refuses to overwrite what somebody else wrote meanwhile,
        `only_new` what is there: both raise PreconditionFailed, and neither is sent twice."""
        body = data.encode() if isinstance(data, str) else data
        answer = yield put_request(f"{self._at}/content", path, user, mode, parents, if_match, only_new, body)
        return read(Written, answer.json())

    @act
    def mkdir(self, path: GuestPath, *, parents: bool = False, mode: str | None = None,
              user: str | None = None) -> Steps[File]:
        return (yield from self._change("mkdir", user, {**path_fields(path), **given(parents=parents, mode=mode)}))

    @pages
    def search(self, path: GuestPath, *, pattern: str | None = None, content: str | None = None,
               any_case: bool | None = None, exclude: str | None = None, user: str | None = None,
               limit: int | None = None) -> Pages[Found]:
        """Files below a folder by name (a shell pattern), by a text in them, or by both. `exclude` names, by commas,
        what is passed over with all in it."""
        return Pages(wire.get(f"{self._at}/search", path=path, pattern=pattern, content=content, any_case=any_case,
                              exclude=exclude, user=user, limit=limit, read_timeout_s=WAKE_S), of(Found))

    @act
    def move(self, path: GuestPath, to: GuestPath, *, overwrite: bool = False, user: str | None = None) -> Steps[File]:
        said = {**path_fields(path), **path_fields(to, "to"), "overwrite": overwrite}
        return (yield from self._change("move", user, said))

    @act
    def copy(self, path: GuestPath, to: GuestPath, *, overwrite: bool = False, user: str | None = None) -> Steps[File]:
        said = {**path_fields(path), **path_fields(to, "to"), "overwrite": overwrite}
        return (yield from self._change("copy", user, said))

    @act
    def chmod(self, path: GuestPath, mode: str, *, user: str | None = None) -> Steps[File]:
        """`mode` is octal text: "0755"."""
        return (yield from self._change("chmod", user, {**path_fields(path), "mode": mode}))

    @act
    def delete(self, path: GuestPath, *, recursive: bool = False, user: str | None = None) -> Steps[None]:
        query = wire.queried({"path": path, "recursive": recursive or None, "user": user})
        # Not repeatable: what is there the second time may be another's.
        yield Request("DELETE", self._at, query, repeatable=False, read_timeout_s=WAKE_S)

    def _get(self, what: str, path: GuestPath, user: str | None, limit: int | None = None) -> Request:
        return wire.get(f"{self._at}{what}", path=path, user=user, limit=limit, read_timeout_s=WAKE_S)

    def _change(self, verb: str, user: str | None, said: Json) -> Steps[File]:
        return parsed_file((yield wire.post(f"{self._at}/{verb}", said, user=user, read_timeout_s=WAKE_S)))


def entries(at: str, path: GuestPath, recursive: bool, user: str | None, read_timeout_s: float = READ_S
            ) -> Pages[File]:
    return Pages(wire.get(at, path=path, recursive=recursive or None, user=user, read_timeout_s=read_timeout_s),
                 of(File), key="entries")


def parsed_file(answer: Answer) -> File:
    return read(File, answer.json())


def put_request(at: str, path: GuestPath, user: str | None, mode: str | None, parents: bool, if_match: str | None,
                only_new: bool, body: bytes | None = None) -> Request:
    """A write. With a precondition it is sent once: after a lost answer the second would be refused by the first."""
    query = wire.queried({"path": path, "mode": mode, "parents": parents or None, "user": user})
    headers = [("Content-Type", "application/octet-stream")]
    headers += [("If-Match", if_match)] if if_match else []
    headers += [("If-None-Match", "*")] if only_new else []
    return Request("PUT", at, query, body, tuple(headers), repeatable=not (if_match or only_new),
                   read_timeout_s=600)


def unpacking(at: str, path: GuestPath, parents: bool, user: str | None) -> Request:
    query = wire.queried({"path": path, "parents": parents or None, "user": user})
    return Request("PUT", f"{at}/archive", query, None, (("Content-Type", "application/x-tar"),), repeatable=False,
                   read_timeout_s=ARCHIVE_S)
