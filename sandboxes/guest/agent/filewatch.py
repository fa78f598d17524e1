"""`file.watch`: changes below a folder as they happen, coalesced, bounded. Called by `filecalls` in its own thread.

    inotify ─▶ one mark per path for COALESCE_S ─▶ a line of JSON ─▶ the host, at its pace

Lines: `{"ready": folders, "partial": bool}` once the watches stand, `{"changes": [{path_b64, change, directory}]}`,
`{"overflow": true}` when something was missed (look again), `{"gone": true}` at the end, when the folder itself went.
A new folder is looked through once it is watched: what was made in it before that is told then. Too many folders are
not watched: the line says `partial`. The watches count for root, never against what the user's own programs may have.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import time
from typing import Any

from sandboxes.guest.agent import filewalk, inotify, paths
from sandboxes.guest.agent.params import base64_of
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.workers import Job

#: How long marks are gathered. A burst of thousands of changes is a few lines.
COALESCE_S = 0.1
MOST_FOLDERS = 8192
MOST_MARKS = 2048
LINE_PATH_BYTES = 32 * 1024
CREATED, MODIFIED, REMOVED, ATTRIBUTES = "created", "modified", "removed", "attributes"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def watch(job: Job, path: bytes, recursive: bool, exclude: tuple[bytes, ...]) -> dict[str, Any]:
    """Until the host wants no more, or the folder is gone."""
    queue, bell = inotify.open_queue(), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    job.on_gone = lambda: os.eventfd_write(bell, 1)
    try:
        watching = _Watching(job, queue, path.rstrip(b"/"), recursive, exclude)
        watching.begin(path)
        poll = select.poll()
        poll.register(queue, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while not watching.gone:
            poll.poll()
            job.check()
            time.sleep(COALESCE_S)
            watching.take()
        return {}
    finally:
        job.on_gone = None
        os.close(queue)
        os.close(bell)


def _is_nameless(notice: inotify.Notice) -> bool:
    """What the kernel calls a file without a name while it is written."""
    written = inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE
    return bool(notice.mask & written) and notice.name[:1] == b"#" and notice.name[1:].isdigit()


class _Watching:
    def __init__(self, job: Job, queue: int, base: bytes, recursive: bool, exclude: tuple[bytes, ...]) -> None:
        self._job, self._queue, self._base, self._recursive = job, queue, base, recursive
        self._exclude = frozenset(exclude)
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self._marks: dict[bytes, tuple[str, bool]] = {}
        self._overflow = self._partial = False
        self.gone = False

    def begin(self, path: bytes) -> None:
        """Raises what opening says: not there, no folder, not to be read by this user."""
        fd = filewalk.open_folder(path)
        try:
            if not self._add(fd, self._base):
                raise Refusal("busy", "the guest's kernel gives no more watches", retry_after_s=5)
            if self._recursive:
                self._add_below(fd, self._base, told=False)
        finally:
            os.close(fd)
        self._job.head({})
        self._say({"ready": len(self._paths), "partial": self._partial})

    # -- watches ---------------------------------------------------------------------------------------------------

    def _add(self, fd: int, path: bytes) -> bool:
        if len(self._paths) >= MOST_FOLDERS:
            self._partial = True
            return False
        try:
            number = inotify.add(self._queue, fd)
        except OSError as error:
            if error.errno != errno.ENOSPC:  # this kernel's bound on watches
                raise
            self._partial = True
            return False
        former = self._paths.get(number)
        if former is not None:  # the kernel knows the folder already: it has moved here
            self._watches.pop(former, None)
        self._paths[number], self._watches[path] = path, number
        return True

    def _add_below(self, fd: int, path: bytes, *, told: bool) -> None:
        """The folders below; `told`: what is in them is news."""
        for found in filewalk.deep(self._job, fd, path, [], lambda each: each.name not in self._exclude):
            directory = (found.stat.st_mode & 0o170000) == 0o040000
            if told:
                self._mark(found.path, CREATED, directory)
            if directory and found.name not in self._exclude:
                with contextlib.suppress(OSError):
                    self._add_named(found.folder, found.name, found.path)

    def _add_named(self, folder: int, name: bytes, path: bytes) -> None:
        fd = os.open(name, _OPEN, dir_fd=folder)
        try:
            self._add(fd, path)
        finally:
            os.close(fd)

    def _follow(self, path: bytes) -> None:
        """A folder appeared: it is watched first and then looked through, so that nothing falls between."""
        with contextlib.suppress(OSError):
            named = paths.open_path(path, os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fd = paths.reopen(named, os.O_RDONLY | os.O_DIRECTORY)
            finally:
                os.close(named)
            try:
                if self._add(fd, path):
                    self._add_below(fd, path, told=True)
            finally:
                os.close(fd)

    def _forget_below(self, path: bytes) -> None:
        """A folder left, with all in it."""
        for each in [each for each in self._watches if each == path or each.startswith(path + b"/")]:
            number = self._watches.pop(each)
            self._paths.pop(number, None)
            inotify.remove(self._queue, number)

    # -- notices ---------------------------------------------------------------------------------------------------

    def take(self) -> None:
        for notice in inotify.notices(self._queue):
            if notice.mask & inotify.OVERFLOW:
                self._overflow = True
            elif notice.mask & inotify.IGNORED:
                path = self._paths.pop(notice.watch, None)
                if path is not None and self._watches.get(path) == notice.watch:
                    del self._watches[path]
            elif (folder := self._paths.get(notice.watch)) is not None:
                self._note(folder, notice)
        self._tell()

    def _note(self, folder: bytes, notice: inotify.Notice) -> None:
        if not notice.name:
            ended = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT
            self.gone = self.gone or (folder == self._base and bool(notice.mask & ended))
            return
        if notice.name in self._exclude or notice.name.startswith(b".berth-"):
            return
        if _is_nameless(notice) and not os.path.lexists(folder + b"/" + notice.name):
            return
        path, directory = folder + b"/" + notice.name, bool(notice.mask & inotify.IS_DIR)
        if notice.mask & (inotify.DELETE | inotify.MOVED_FROM):
            if directory:
                self._forget_below(path)
            self._mark(path, REMOVED, directory)
        elif notice.mask & (inotify.CREATE | inotify.MOVED_TO):
            self._mark(path, CREATED, directory)
            if directory and self._recursive:
                self._follow(path)
        elif notice.mask & (inotify.MODIFY | inotify.CLOSE_WRITE):
            self._mark(path, MODIFIED, directory)
        else:
            self._mark(path, ATTRIBUTES, directory)

    def _mark(self, path: bytes, change: str, directory: bool) -> None:
        """The last word on a path is what it is told with, save that what is new stays new while it is written."""
        former = self._marks.get(path)
        if former is not None and change in (MODIFIED, ATTRIBUTES) and former[0] in (CREATED, MODIFIED):
            return
        if former is not None and former[0] == REMOVED and change == CREATED and not directory:
            change = MODIFIED  # replaced
        if former is None and len(self._marks) >= MOST_MARKS:
            self._overflow = True
            return
        self._marks[path] = (change, directory)

    # -- telling ---------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        line: list[dict[str, Any]] = []
        size = 0
        for path, (change, directory) in self._marks.items():
            line.append({"path_b64": base64_of(path), "change": change, "directory": directory})
            size += len(path) + 64
            if size >= LINE_PATH_BYTES:
                self._say({"changes": line})
                line, size = [], 0
        if line:
            self._say({"changes": line})
        self._marks.clear()
        if self._overflow:
            self._overflow = False
            self._say({"overflow": True})
        if self.gone:
            self._say({"gone": True})

    def _say(self, said: dict[str, Any]) -> None:
        self._job.send(json.dumps(said, separators=(",", ":")).encode() + b"\n")
