"""`file.archive`: a folder, or one file, as a tar stream at the host's pace. Called by `filecalls` in a worker thread.

Names are those below the folder. Holes stay holes, names of one file (hard links) stay names of one file, links are not
followed, another file system is not entered, a socket has no place in an archive. What the user may not read is left
out, and a block of text behind the archive's end says how many and which first. A file that becomes shorter meanwhile
is filled up with zeros, one that grows is cut: every other entry stays where its header says.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from sandboxes.guest.agent import filewalk, paths, stats, tarwrite
from sandboxes.guest.agent import tarheaders as tar
from sandboxes.guest.agent.filecopy import data_ranges
from sandboxes.guest.agent.filewalk import Found
from sandboxes.guest.agent.refusal import shown
from sandboxes.guest.agent.stats import Names
from sandboxes.guest.agent.tarheaders import Ranges
from sandboxes.guest.agent.workers import Job
from sandboxes.guest.protocol import MAX_PAYLOAD_BYTES

#: Files with several names that are remembered; later ones are sent once for each name.
MOST_REMEMBERED = 100_000
#: Small pieces are sent together.
TOGETHER_BYTES = MAX_PAYLOAD_BYTES
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def archive(job: Job, path: bytes) -> dict[str, Any]:
    """The head `{}` goes once it is sure that there will be an archive; the result counts what is in it."""
    out = _Archive(job)
    named = paths.open_path(path)
    try:
        found = os.fstat(named)
    finally:
        os.close(named)
    if stat.S_ISDIR(found.st_mode):
        out.tree(path)
    else:
        out.file(path)
    return out.finish()


class _Archive:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._names = Names()
        self._seen: dict[tuple[int, int], bytes] = {}
        self._held = bytearray()
        self._entries = self._left_out = 0
        self._first_left_out = b""

    def tree(self, path: bytes) -> None:
        base = path.rstrip(b"/")
        fd = filewalk.open_folder(path)
        try:
            self._job.head({})
            for found in filewalk.deep(self._job, fd, base, []):
                self._add(found, found.path[len(base) + 1:])
        finally:
            os.close(fd)

    def file(self, path: bytes) -> None:
        """One file, by the last of its names."""
        named = paths.open_path(path)
        try:
            stats.require_file(os.fstat(named), path)
            opened = paths.reopen(named, os.O_RDONLY)
        finally:
            os.close(named)
        try:
            self._job.head({})
            self._content(opened, path.rstrip(b"/").rpartition(b"/")[2])
        finally:
            os.close(opened)

    def finish(self) -> dict[str, Any]:
        self._write(tar.END)
        if self._left_out:
            first = shown(self._first_left_out)
            self._write(tarwrite.remark(f"left out, because it could not be read: {self._left_out}, first {first}"))
        self._flush()
        return {"entries": self._entries, "left_out": self._left_out}

    # -- entries ---------------------------------------------------------------------------------------------------

    def _add(self, found: Found, name: bytes) -> None:
        kind = tarwrite.KINDS.get(stat.S_IFMT(found.stat.st_mode))
        if kind is None:
            return
        try:
            if kind == tar.FILE:
                self._add_file(found, name)
            else:
                link = os.readlink(found.name, dir_fd=found.folder) if kind == tar.SYMLINK else b""
                self._header(kind, name + (b"/" if kind == tar.FOLDER else b""), found.stat, link=link)
                if kind == tar.FOLDER and not self._readable(found):
                    self._leave_out(found.path)
        except (FileNotFoundError, NotADirectoryError):
            return  # it vanished meanwhile
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.ELOOP):
                raise
            self._leave_out(found.path)

    def _readable(self, found: Found) -> bool:
        try:
            os.close(os.open(found.name, _OPEN | os.O_DIRECTORY, dir_fd=found.folder))
        except PermissionError:
            return False
        return True

    def _leave_out(self, path: bytes) -> None:
        self._left_out += 1
        self._first_left_out = self._first_left_out or path

    def _add_file(self, found: Found, name: bytes) -> None:
        key = (found.stat.st_dev, found.stat.st_ino)
        if key in self._seen:
            self._header(tar.HARD_LINK, name, found.stat, link=self._seen[key])
            return
        fd = os.open(found.name, _OPEN, dir_fd=found.folder)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return
            self._content(fd, name)
        finally:
            os.close(fd)
        if found.stat.st_nlink > 1 and len(self._seen) < MOST_REMEMBERED:
            self._seen[key] = name

    def _content(self, fd: int, name: bytes) -> None:
        found = os.fstat(fd)
        data = _holes(fd, found)
        user, group = self._names.user(found.st_uid), self._names.group(found.st_gid)
        self._entries += 1
        if data is None:
            self._write(tarwrite.header(tar.FILE, name, found, size=found.st_size, user=user, group=group))
            data = [(0, found.st_size)]
        else:
            self._write(tarwrite.sparse_header(name, found, data, user=user, group=group))
        for offset, length in data:
            self._range(fd, offset, length)
        self._write(bytes(tar.padding(sum(length for _, length in data))))

    def _range(self, fd: int, offset: int, length: int) -> None:
        end = offset + length
        while offset < end:
            data = os.pread(fd, min(MAX_PAYLOAD_BYTES, end - offset), offset)
            data = data or bytes(min(MAX_PAYLOAD_BYTES, end - offset))
            self._write(data)
            offset += len(data)

    def _header(self, kind: bytes, name: bytes, found: os.stat_result, link: bytes = b"") -> None:
        self._entries += 1
        self._write(tarwrite.header(kind, name, found, link=link, user=self._names.user(found.st_uid),
                                    group=self._names.group(found.st_gid)))

    # -- bytes -----------------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        self._held += data
        if len(self._held) >= TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._job.send(bytes(self._held))
            self._held.clear()


def _holes(fd: int, found: os.stat_result) -> Ranges | None:
    """Where the file's bytes are, of one that has holes; None of one that has none, or more than a map may name."""
    if found.st_blocks * 512 >= found.st_size:
        return None
    data: Ranges = []
    for each in data_ranges(fd, found.st_size):
        data.append(each)
        if len(data) >= tar.MOST_RANGES:
            return None
    end = sum(data[-1]) if data else 0
    if end < found.st_size:
        data.append((found.st_size, 0))  # as GNU's tar ends a map: the file is as long as this
    return data
