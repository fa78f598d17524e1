"""`file.extract`: a tar stream into a folder, at the guest's pace. Called by `filecalls` in a worker thread.

    bytes ─▶ header ─▶ its folder, opened beneath the one that was named ─▶ a file beside, then its name

An archive is a stranger's. Absolute names and ".." are refused by name, and the kernel itself resolves every name
beneath the folder, so no link leads out of it, not even one that is swapped meanwhile; a link *as an entry* may point
anywhere, for nothing is written through it. Devices are refused. Each file appears whole or not at all and all belong
to the acting user; what had arrived before a refusal stays, and the refusal says how much that was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any

from sandboxes.guest.agent import filewalk, paths, syscalls, tarread
from sandboxes.guest.agent import tarheaders as tar
from sandboxes.guest.agent.filebeside import open_beside
from sandboxes.guest.agent.filewrite import write_all
from sandboxes.guest.agent.refusal import Refusal, refusal_of, shown
from sandboxes.guest.agent.tarheaders import BadArchive, Entry
from sandboxes.guest.agent.workers import Job

#: A stranger's bits for acting as somebody else are not taken over.
KEPT_MODE = 0o1777
PIECE_BYTES = 256 * 1024
#: Folders whose mode and time are set at the end, so that what may not be written into can be filled first.
MOST_FOLDERS = 100_000
_SYNCFS = 306


def extract(job: Job, path: bytes, parents: bool) -> dict[str, Any]:
    """`{entries, bytes}`. The folder must be there, or is made with `parents`."""
    if parents:
        paths.make_parents(path.rstrip(b"/") + b"/.")
    fd = filewalk.open_folder(path)
    try:
        return _Extraction(job, fd).run()
    finally:
        os.close(fd)


class _Source:
    """The stream as bytes one asks for."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._held = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        """Exactly so many, fewer only at the end."""
        parts: list[bytes] = []
        while size and (data := self.some(size)):
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def some(self, most: int) -> bytes:
        while not self._held and not self._ended:
            data = self._job.receive()
            self._held, self._ended = data or b"", data is None
        taken, self._held = self._held[:most], self._held[most:]
        return taken

    def exhaust(self) -> None:
        while self.some(PIECE_BYTES):
            pass


class _Extraction:
    def __init__(self, job: Job, root: int) -> None:
        self._source = _Source(job)
        self._root = root
        self._folders: dict[bytes, Entry] = {}
        self._entries = self._bytes = 0

    def run(self) -> dict[str, Any]:
        what = b""
        try:
            while (entry := tarread.next_entry(self._source.read)) is not None:
                what = entry.name
                self._take(entry)
                self._entries += 1
            self._source.exhaust()
            self._finish_folders()
            syscalls.call(_SYNCFS, self._root)
        except BadArchive as error:
            raise self._refusal(Refusal("invalid", f"not an archive that can be taken: {error}", field="body"), what) \
                from error
        except Refusal as refusal:
            raise self._refusal(refusal, what) from refusal
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise self._refusal(_leads_out(what), what) from error
            raise self._refusal(refusal_of(error, shown(what)), what) from error
        return {"entries": self._entries, "bytes": self._bytes}

    def _refusal(self, refusal: Refusal, what: bytes) -> Refusal:
        where = f" at {shown(what)!r}" if what and shown(what) not in refusal.detail else ""
        return Refusal(refusal.code, f"{refusal.detail}{where}, after {self._entries} entries", **refusal.extra)

    # -- entries ---------------------------------------------------------------------------------------------------

    def _take(self, entry: Entry) -> None:
        parts = _parts(entry.name)
        if not parts:  # the folder itself
            self._skip(entry)
        elif entry.kind == tar.FOLDER:
            self._make_folder(parts, entry)
        elif entry.kind in (tar.FILE, tar.SPARSE):
            self._write_file(parts, entry)
        else:
            with self._place(parts) as (folder, name):
                self._make(folder, name, entry)

    def _skip(self, entry: Entry) -> None:
        left = entry.size + tar.padding(entry.size)
        while left:
            data = self._source.some(min(left, PIECE_BYTES))
            if not data:
                raise BadArchive("it ends in the middle")
            left -= len(data)

    @contextlib.contextmanager
    def _place(self, parts: list[bytes]) -> Iterator[tuple[int, bytes]]:
        """(the entry's folder, its name). Folders that the archive does not name are made."""
        folder = self._open_folder(parts[:-1])
        try:
            yield folder, parts[-1]
        finally:
            os.close(folder)

    def _open_folder(self, parts: list[bytes]) -> int:
        for known in range(len(parts), -1, -1):
            try:
                return self._with_made(parts[:known], parts[known:])
            except FileNotFoundError:
                if known == 0:
                    raise
        raise AssertionError("the folder itself is there")

    def _with_made(self, there: list[bytes], missing: list[bytes]) -> int:
        folder = paths.open_beneath(self._root, b"/".join(there) or b".", os.O_DIRECTORY)
        for name in missing:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
                below = paths.open_beneath(folder, name, os.O_DIRECTORY | os.O_NOFOLLOW)
            finally:
                os.close(folder)
            folder = below
        return folder

    def _make_folder(self, parts: list[bytes], entry: Entry) -> None:
        os.close(self._open_folder(parts))
        if len(self._folders) < MOST_FOLDERS:
            self._folders[b"/".join(parts)] = entry

    def _finish_folders(self) -> None:
        """Deepest first: a folder's time is the last thing that changes in it."""
        for path, entry in sorted(self._folders.items(), key=lambda each: -each[0].count(b"/")):
            named = paths.open_beneath(self._root, path, os.O_DIRECTORY)
            try:
                fd = paths.reopen(named, os.O_RDONLY | os.O_DIRECTORY)
            except PermissionError:
                continue
            finally:
                os.close(named)
            try:
                with contextlib.suppress(PermissionError):  # it was there and is another's
                    os.fchmod(fd, entry.mode & KEPT_MODE)
                    os.utime(fd, (entry.mtime, entry.mtime))
            finally:
                os.close(fd)

    def _make(self, folder: int, name: bytes, entry: Entry) -> None:
        if entry.kind == tar.SYMLINK:
            self._replace(folder, name, lambda aside: os.symlink(entry.link, aside, dir_fd=folder))
        elif entry.kind == tar.HARD_LINK:
            with self._target(entry) as (where, target):
                self._replace(folder, name, lambda aside: os.link(target, aside, src_dir_fd=where, dst_dir_fd=folder,
                                                                  follow_symlinks=False))
        elif entry.kind == tar.FIFO:
            self._replace(folder, name, lambda aside: os.mkfifo(aside, entry.mode & 0o777, dir_fd=folder))
        else:
            what = "a device" if entry.kind in (tar.CHARACTER, tar.BLOCK) else f"of kind {shown(entry.kind)!r}"
            raise Refusal("invalid", f"{shown(entry.name)} is {what}: such entries are not taken", field="body")

    @contextlib.contextmanager
    def _target(self, entry: Entry) -> Iterator[tuple[int, bytes]]:
        parts = _parts(entry.link)
        if not parts:
            raise Refusal("invalid", f"{shown(entry.name)} is a second name of the folder itself", field="body")
        folder = paths.open_beneath(self._root, b"/".join(parts[:-1]) or b".", os.O_DIRECTORY)
        try:
            yield folder, parts[-1]
        finally:
            os.close(folder)

    def _replace(self, folder: int, name: bytes, make: Any) -> None:
        """Under another name first: the old entry stays until the new one is there."""
        aside = b".berth-" + os.urandom(6).hex().encode()
        make(aside)
        try:
            paths.rename(folder, aside, folder, name, replace=True)
        finally:
            with contextlib.suppress(FileNotFoundError):  # also when both were names of one file already
                os.unlink(aside, dir_fd=folder)

    # -- files -----------------------------------------------------------------------------------------------------

    def _write_file(self, parts: list[bytes], entry: Entry) -> None:
        with self._place(parts) as (folder, name):
            _refuse_folder(folder, name, entry)
            beside = open_beside(folder, None)
            assert beside is not None, "for a new file there is always one"
            try:
                self._fill(beside.fd, entry)
                os.fchmod(beside.fd, entry.mode & KEPT_MODE)
                os.utime(beside.fd, (entry.mtime, entry.mtime))
                beside.take(name, replace=True)
            finally:
                beside.close()

    def _fill(self, fd: int, entry: Entry) -> None:
        for offset, length in entry.data if entry.data is not None else [(0, entry.size)]:
            os.lseek(fd, offset, os.SEEK_SET)
            self._copy(fd, length)
        if entry.data is not None:
            os.ftruncate(fd, entry.real_size)
        if len(self._source.read(tar.padding(entry.size))) != tar.padding(entry.size):
            raise BadArchive("it ends in the middle")
        self._bytes += entry.size

    def _copy(self, fd: int, length: int) -> None:
        while length:
            data = self._source.some(min(length, PIECE_BYTES))
            if not data:
                raise BadArchive("it ends in the middle")
            write_all(fd, data)
            length -= len(data)


def _parts(name: bytes) -> list[bytes]:
    """The names of a path below the folder. Raises Refusal for one that does not stay there."""
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if name.startswith(b"/") or b".." in parts or b"\0" in name:
        raise _leads_out(name)
    return parts


def _leads_out(name: bytes) -> Refusal:
    return Refusal("invalid", f"{shown(name)} leads out of the folder: such entries are not taken", field="body")


def _refuse_folder(folder: int, name: bytes, entry: Entry) -> None:
    """Before its bytes are taken in vain."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Refusal("is_a_directory", f"{shown(entry.name)} is a folder here")
