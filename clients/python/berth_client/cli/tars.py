"""Folders as tar streams, in flat memory, on this machine's side. Called by `copies`.

An archive from a guest is a stranger's: a name that is absolute or climbs, and whatever would be written through a link
that the archive itself brought, is left out and named. Links are made, never followed; devices are not made at all.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from berth_client.problems import StreamBroken

PIECE_BYTES = 256 * 1024


def packed(folder: Path) -> Iterator[bytes]:
    """A folder as a tar stream that is made while it is read. What cannot be read breaks the stream off by its error:
    half an archive is never taken for a whole one."""
    reading, writing = os.pipe()
    failed: list[BaseException] = []
    thread = threading.Thread(target=written_out, args=(folder, writing, failed), daemon=True)
    thread.start()
    try:
        with os.fdopen(reading, "rb") as archive:
            while data := archive.read(PIECE_BYTES):
                yield data
    finally:
        thread.join()
    if failed:
        raise failed[0]


def written_out(folder: Path, writing: int, failed: list[BaseException]) -> None:
    try:
        with os.fdopen(writing, "wb") as out, tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, arcname=path.name)
    except BrokenPipeError:
        return  # who reads it has gone, and says why
    except BaseException as error:  # it belongs to the thread that reads
        failed.append(error)


class Pieces:
    """An iterator of bytes as the file that tarfile reads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held = pieces, b""

    def read(self, size: int) -> bytes:
        parts, wanted = [], size
        while wanted and (self._held or self._next()):
            taken, self._held = self._held[:wanted], self._held[wanted:]
            parts.append(taken)
            wanted -= len(taken)
        return b"".join(parts)

    def _next(self) -> bool:
        self._held = next((piece for piece in self._pieces if piece), b"")
        return bool(self._held)


def unpack(pieces: Iterator[bytes], folder: Path) -> list[str]:
    """Into a folder, made when missing; the names that were left out."""
    folder.mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []
    modes: list[tuple[Path, int]] = []
    try:
        with tarfile.open(fileobj=Pieces(pieces), mode="r|") as tar:  # type: ignore[call-overload]  # it only reads
            for entry in tar:
                if not placed(tar, entry, folder, modes):
                    left_out.append(entry.name)
    except tarfile.TarError as error:
        raise StreamBroken(f"The archive broke off: {error}") from error
    for path, mode in reversed(modes):
        path.chmod(mode)
    return left_out


def placed(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, modes: list[tuple[Path, int]]) -> bool:
    path = beneath(folder, entry.name)
    if path is None:
        return False
    mode = entry.mode & 0o777
    if entry.isdir():
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            return False
        path.mkdir(parents=True, exist_ok=True)
        modes.append((path, mode | 0o700))
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        return False
    if entry.issym():
        path.unlink(missing_ok=True)
        path.symlink_to(entry.linkname)
        return True
    if entry.islnk():
        return linked(entry, path, folder)
    if not entry.isreg():
        return False
    written(tar, entry, path, mode)
    return True


def linked(entry: tarfile.TarInfo, path: Path, folder: Path) -> bool:
    """Another name of a file that this archive brought."""
    first = beneath(folder, entry.linkname)
    if first is None or first.is_symlink() or not first.is_file():
        return False
    path.unlink(missing_ok=True)
    os.link(first, path)
    return True


def written(tar: tarfile.TarFile, entry: tarfile.TarInfo, path: Path, mode: int) -> None:
    """Beside, then its name: what is there (a link as well) is replaced, never written through."""
    beside = path.with_name(f".{path.name[:200]}.part")
    with suppress(FileNotFoundError):
        beside.unlink()
    data = tar.extractfile(entry)
    assert data is not None, "a regular file has data"
    with beside.open("xb") as file:
        shutil.copyfileobj(data, file, PIECE_BYTES)
    beside.chmod(mode)
    os.utime(beside, (entry.mtime, entry.mtime))
    beside.replace(path)


def beneath(folder: Path, name: str) -> Path | None:
    """The place of a name, if it is below the folder by real folders alone."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name:
        return None
    path = folder
    for part in parts[:-1]:
        path = path / part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            return None
    return path / parts[-1]
