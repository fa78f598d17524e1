"""What lasts longer than an answer, for callers who await: `streams`, word for word, in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from berth_client import sockets, wire
from berth_client.act import Awaiting
from berth_client.acts.execs import ExecsActs
from berth_client.acts.files import ARCHIVE_S, WAKE_S, FilesActs, put_request, unpacking
from berth_client.acts.workspaces import WorkspaceActs
from berth_client.feed import EventFeed, WatchFeed, socket_path
from berth_client.follow import Following
from berth_client.hands_async import AsyncHand
from berth_client.model import Chunk, Ended, Event, Exec, Unpacked, Written
from berth_client.problems import BerthError, PreconditionFailed, StreamBroken
from berth_client.sent import good
from berth_client.shape import read
from berth_client.transfer import Download, Source, Upload
from berth_client.wire import Answer, GuestPath, Request


class AsyncExecs(ExecsActs, Awaiting):
    _hand: AsyncHand

    async def follow(self, exec_id: str, *, offset: int = 0) -> AsyncIterator[Chunk | Ended]:
        """Its output as it comes, every byte once and in order, over broken connections too; `Ended` is the last."""
        place, again = Following(self._at, exec_id, offset), self._hand.link.retry.again()
        while not place.over:
            try:
                async with self._hand.open(place.request()) as opened:
                    async for data in opened.pieces():
                        again.went_well()
                        for piece in place.take(data):
                            yield piece
                if not place.over:
                    raise place.ended_early()
            except BerthError as error:
                await self._hand.sleep(again.delay_s(error))

    async def live(self, exec_id: str, on_stdout: Callable[[bytes], Any] | None = None,
             on_stderr: Callable[[bytes], Any] | None = None) -> Exec:
        """Follows with callbacks, to the end; the exec as it then is."""
        await self.past_approval(exec_id)
        told = {"stdout": on_stdout, "stderr": on_stderr}
        async for piece in self.follow(exec_id):
            if isinstance(piece, Chunk) and (tell := told[piece.stream]) is not None:
                tell(piece.data)
        return await self.wait(exec_id)


class AsyncFiles(FilesActs, Awaiting):
    _hand: AsyncHand

    async def stream(self, path: GuestPath, *, user: str | None = None) -> AsyncIterator[bytes]:
        """A file of any size in flat memory. Goes on where it broke; raises FileChanged when it is another one."""
        request = wire.get(f"{self._at}/content", path=path, user=user, read_timeout_s=WAKE_S)
        async for data in download(self._hand, request):
            yield data

    async def download(self, path: GuestPath, to: Path | str, *, user: str | None = None) -> int:
        """Into a local file, which is there whole or not at all; how many bytes."""
        target = Path(to)
        beside = target.with_name(f".{target.name}.part")
        try:
            with beside.open("wb") as file:
                async for data in self.stream(path, user=user):
                    file.write(data)
                size = file.tell()
            beside.replace(target)
            return size
        finally:
            beside.unlink(missing_ok=True)

    async def upload(self, source: Source, path: GuestPath, *, mode: str | None = None, parents: bool = False,
               if_match: str | None = None, only_new: bool = False, user: str | None = None) -> Written:
        """A local file (its name), bytes, or an open file of any size, in flat memory; whole or not at all."""
        request = put_request(f"{self._at}/content", path, user, mode, parents, if_match, only_new)
        return read(Written, (await self._send(request, source)).json())

    async def archive(self, path: GuestPath, *, user: str | None = None) -> AsyncIterator[bytes]:
        """A folder as a tar stream. It is made as it is sent, so it cannot go on where it broke."""
        request = wire.get(f"{self._at}/archive", path=path, user=user, read_timeout_s=ARCHIVE_S)
        async with self._hand.open(request) as opened:
            async for data in opened.pieces():
                yield data

    async def unpack(self, source: Source, path: GuestPath, *, parents: bool = False,
                     user: str | None = None) -> Unpacked:
        """A tar archive into a folder, which must be there unless `parents` makes it."""
        return read(Unpacked, (await self._send(unpacking(self._at, path, parents, user), source)).json())

    async def unpack_pieces(self, pieces: AsyncIterator[bytes], path: GuestPath, *, parents: bool = False,
                            user: str | None = None) -> Unpacked:
        """The same of a tar stream that is made while it is sent."""
        answer = await self._hand.send(unpacking(self._at, path, parents, user), pieces)
        return read(Unpacked, good(answer).json())

    async def watch(self, path: GuestPath, *, flat: bool = False, exclude: str | None = None,
                    user: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Changes below a path as they come (`flat`: in that folder alone), until the folder goes. Wakes nothing.
        Raises StreamBroken with the connection: what was missed meanwhile only a new look can tell."""
        feed = WatchFeed(socket_path(self._at.removesuffix("/files")), path, flat, exclude, user)
        async for message in messages(self._hand, feed.target):
            yield feed.take(message)

    async def _send(self, request: Request, source: Source) -> Answer:
        upload = Upload(source)
        wanted, again = upload.request(request), self._hand.link.retry.again()
        while True:
            try:
                return good(await self._hand.send(wanted, aside(upload.pieces())))
            except BerthError as error:
                if not upload.again:
                    raise
                await self._hand.sleep(again.delay_s(error, wanted.repeatable))


class AsyncWorkspaceFeeds(WorkspaceActs, Awaiting):
    _hand: AsyncHand

    async def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """What happens, in order and without a gap, from event `after` on and for ever, over broken connections."""
        feed, again = EventFeed(socket_path(self._at), after), self._hand.link.retry.again()
        while True:
            try:
                async for message in messages(self._hand, feed.target):
                    again.went_well()
                    if (event := feed.take(message)) is not None:
                        yield event
                raise StreamBroken("The events ended, and they have no end.")
            except BerthError as error:
                await self._hand.sleep(again.delay_s(error))


async def download(hand: AsyncHand, request: Request) -> AsyncIterator[bytes]:
    place, again = Download(request), hand.link.retry.again()
    while not place.over:
        try:
            async with hand.open(place.request()) as opened:
                place.began(opened.status, opened.headers.get("etag"))
                async for data in opened.pieces():
                    again.went_well()
                    yield place.took(data)
                place.over = True
        except PreconditionFailed as error:
            raise place.refused(error) from error
        except BerthError as error:
            await hand.sleep(again.delay_s(error))


async def messages(hand: AsyncHand, target: str) -> AsyncIterator[str | bytes]:
    """What a socket says, until it closes: raises what that means."""
    async with AsyncExitStack() as stack:
        with sockets.opening_named():
            socket = await stack.enter_async_context(
                connect(hand.link.socket_url(target), **sockets.options(hand.link)))
        try:
            while True:
                yield await socket.recv()
        except ConnectionClosed as error:
            if not sockets.said_farewell(error):
                raise sockets.closing(error) from error


async def aside(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Local reads off the loop: a slow disk or pipe delays nobody else."""
    while (data := await asyncio.to_thread(next, pieces, b"")):
        yield data
