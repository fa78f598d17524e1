"""`file.mkdir`, `move`, `copy`, `chmod`, `remove`: the small changes. Called by `filecalls` in a worker thread."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

from sandboxes.guest.agent import paths
from sandboxes.guest.agent.filecopy import copy_entry, remove_entry
from sandboxes.guest.agent.refusal import Refusal, shown
from sandboxes.guest.agent.workers import Job


def make_folder(path: bytes, mode: int | None, parents: bool) -> dict[str, Any]:
    """With `parents` a folder that is there already is fine."""
    if parents:
        paths.make_parents(path)
    folder, name = paths.open_parent(path)
    try:
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            if not parents:
                raise
            os.close(paths.open_path(path, os.O_DIRECTORY))
            return {}
        if mode is not None:
            os.chmod(name, mode, dir_fd=folder)
        return {}
    finally:
        os.close(folder)


def change_mode(path: bytes, mode: int) -> dict[str, Any]:
    """Of a link: its target's. Never waits on a FIFO."""
    fd = paths.open_path(path)
    try:
        Path(f"/proc/self/fd/{fd}").chmod(mode)
        return {}
    finally:
        os.close(fd)


def remove(job: Job, path: bytes, recursive: bool) -> dict[str, Any]:
    with _parent(path) as (folder, name):
        remove_entry(job, folder, name, recursive)
        paths.sync_folder(folder)
    return {}


def move(job: Job, path: bytes, to: bytes, overwrite: bool, parents: bool) -> dict[str, Any]:
    """A rename; between file systems a copy, then a removal."""
    if parents:
        paths.make_parents(to)
    with _parent(path) as (folder, name), _parent(to) as (to_folder, to_name):
        try:
            paths.rename(folder, name, to_folder, to_name, overwrite)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_then_rename(job, (folder, name), (to_folder, to_name), overwrite)
            remove_entry(job, folder, name, recursive=True)
        paths.sync_folder(to_folder)
        paths.sync_folder(folder)
    return {}


def copy(job: Job, path: bytes, to: bytes, overwrite: bool, parents: bool) -> dict[str, Any]:
    """Appears under its name when complete."""
    if parents:
        paths.make_parents(to)
    with _parent(path) as (folder, name), _parent(to) as (to_folder, to_name):
        own = paths.real_path(folder).rstrip(b"/") + b"/" + name + b"/"
        if (paths.real_path(to_folder).rstrip(b"/") + b"/" + to_name + b"/").startswith(own):
            raise Refusal("invalid", f"{shown(path)} cannot be copied into itself")
        _copy_then_rename(job, (folder, name), (to_folder, to_name), overwrite)
        paths.sync_folder(to_folder)
    return {}


def _copy_then_rename(job: Job, source: tuple[int, bytes], target: tuple[int, bytes], overwrite: bool) -> None:
    aside = b".berth-" + os.urandom(6).hex().encode()
    try:
        copy_entry(job, *source, target[0], aside)
        paths.rename(target[0], aside, *target, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_entry(job, target[0], aside, recursive=True)
        raise


@contextlib.contextmanager
def _parent(path: bytes) -> Any:
    folder, name = paths.open_parent(path)
    try:
        yield folder, name
    finally:
        os.close(folder)
