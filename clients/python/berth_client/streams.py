"""What lasts longer than an answer, for callers who wait: live output, files of any size, events. `streams_async` is
its twin. Each loop opens, hands what comes to a pure object that knows the place, and opens again when it broke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from berth_client import sockets, wire
from berth_client.act import Waiting
from berth_client.acts.execs import ExecsActs
from berth_client.acts.files import ARCHIVE_S, WAKE_S, FilesActs, put_request, unpacking
from berth_client.acts.workspaces import WorkspaceActs
from berth_client.feed import EventFeed, WatchFeed, socket_path
from berth_client.follow import Following
from berth_client.hands import SyncHand
from berth_client.model import Chunk, Ended, Event, Exec, Unpacked, Written
from berth_client.problems import BerthError, PreconditionFailed, StreamBroken
from berth_client.sent import good
from berth_client.shape import read
from berth_client.transfer import Download, Source, Upload
from berth_client.wire import Answer, GuestPath, Request


class Execs(ExecsActs, Waiting):
    _hand: SyncHand

    def follow(self, exec_id: str, *, offset: int = 0) -> Iterator[Chunk | Ended]:
        """Its output as it comes, every byte once and in order, over broken connections too; `Ended` is the last."""
        place, again = Following(self._at, exec_id, offset), self._hand.link.retry.again()
        while not place.over:
            try:
                with self._hand.open(place.request()) as opened:
                    for data in opened.pieces():
                        again.went_well()
                        yield from place.take(data)
                if not place.over:
                    raise place.ended_early()
            except BerthError as error:
                self._hand.sleep(again.delay_s(error))

    def live(self, exec_id: str, on_stdout: Callable[[bytes], Any] | None = None,
             on_stderr: Callable[[bytes], Any] | None = None) -> Exec:
        """Follows with callbacks, to the end; the exec as it then is."""
        self.past_approval(exec_id)
        told = {"stdout": on_stdout, "stderr": on_stderr}
        for piece in self.follow(exec_id):
            if isinstance(piece, Chunk) and (tell := told[piece.stream]) is not None:
                tell(piece.data)
        return self.wait(exec_id)


class Files(FilesActs, Waiting):
    _hand: SyncHand

    def stream(self, path: GuestPath, *, user: str | None = None) -> Iterator[bytes]:
        """A file of any size in flat memory. Goes on where it broke; raises FileChanged when it is another one."""
        yield from download(self._hand, wire.get(f"{self._at}/content", path=path, user=user, read_timeout_s=WAKE_S))

    def download(self, path: GuestPath, to: Path | str, *, user: str | None = None) -> int:
        """Into a local file, which is there whole or not at all; how many bytes."""
        target = Path(to)
        beside = target.with_name(f".{target.name}.part")
        try:
            with beside.open("wb") as file:
                for data in self.stream(path, user=user):
                    file.write(data)
                size = file.tell()
            beside.replace(target)
            return size
        finally:
            beside.unlink(missing_ok=True)

    def upload(self, source: Source, path: GuestPath, *, mode: str | None = None, parents: bool = False,
               if_match: str | None = None, only_new: bool = False, user: str | None = None) -> Written:
        """A local file (its name), bytes, or an open file of any size, in flat memory; whole or not at all."""
        request = put_request(f"{self._at}/content", path, user, mode, parents, if_match, only_new)
        return read(Written, self._send(request, source).json())

    def archive(self, path: GuestPath, *, user: str | None = None) -> Iterator[bytes]:
        """A folder as a tar stream. It is made as it is sent, so it cannot go on where it broke."""
        request = wire.get(f"{self._at}/archive", path=path, user=user, read_timeout_s=ARCHIVE_S)
        with self._hand.open(request) as opened:
            yield from opened.pieces()

    def unpack(self, source: Source, path: GuestPath, *, parents: bool = False,
               user: str | None = None) -> Unpacked:
        """A tar archive into a folder, which must be there unless `parents` makes it."""
        return read(Unpacked, self._send(unpacking(self._at, path, parents, user), source).json())

    def unpack_pieces(self, pieces: Iterator[bytes], path: GuestPath, *, parents: bool = False,
                      user: str | None = None) -> Unpacked:
        """The same of a tar stream that is made while it is sent."""
        answer = self._hand.send(unpacking(self._at, path, parents, user), pieces)
        return read(Unpacked, good(answer).json())

    def watch(self, path: GuestPath, *, flat: bool = False, exclude: str | None = None,
              user: str | None = None) -> Iterator[dict[str, Any]]:
        """Changes below a path as they come (`flat`: in that folder alone), until the folder goes. Wakes nothing.
        Raises StreamBroken with the connection: what was missed meanwhile only a new look can tell."""
        feed = WatchFeed(socket_path(self._at.removesuffix("/files")), path, flat, exclude, user)
        for message in messages(self._hand, feed.target):
            yield feed.take(message)

    def _send(self, request: Request, source: Source) -> Answer:
        upload = Upload(source)
        wanted, again = upload.request(request), self._hand.link.retry.again()
        while True:
            try:
                return good(self._hand.send(wanted, upload.pieces()))
            except BerthError as error:
                if not upload.again:
                    raise
                self._hand.sleep(again.delay_s(error, wanted.repeatable))


class WorkspaceFeeds(WorkspaceActs, Waiting):
    _hand: SyncHand

    def events(self, *, after: int = 0) -> Iterator[Event]:
        """What happens, in order and without a gap, from event `after` on and for ever, over broken connections."""
        feed, again = EventFeed(socket_path(self._at), after), self._hand.link.retry.again()
        while True:
            try:
                for message in messages(self._hand, feed.target):
                    again.went_well()
                    if (event := feed.take(message)) is not None:
                        yield event
                raise StreamBroken("The events ended, and they have no end.")
            except BerthError as error:
                self._hand.sleep(again.delay_s(error))


def download(hand: SyncHand, request: Request) -> Iterator[bytes]:
    place, again = Download(request), hand.link.retry.again()
    while not place.over:
        try:
            with hand.open(place.request()) as opened:
                place.began(opened.status, opened.headers.get("etag"))
                for data in opened.pieces():
                    again.went_well()
                    yield place.took(data)
                place.over = True
        except PreconditionFailed as error:
            raise place.refused(error) from error
        except BerthError as error:
            hand.sleep(again.delay_s(error))


def messages(hand: SyncHand, target: str) -> Iterator[str | bytes]:
    """What a socket says, until it closes: raises what that means."""
    with ExitStack() as stack:
        with sockets.opening_named():
            socket = stack.enter_context(connect(hand.link.socket_url(target), **sockets.options(hand.link)))
        try:
            while True:
                yield socket.recv()
        except ConnectionClosed as error:
            if not sockets.said_farewell(error):
                raise sockets.closing(error) from error
