"""The `file.*` calls of the guest link: parameters in, a worker thread with the user's rights, refusals out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandboxes.guest.agent import filechanges, paths, stats
from sandboxes.guest.agent import params as p
from sandboxes.guest.agent.accounts import account_of
from sandboxes.guest.agent.archivein import extract
from sandboxes.guest.agent.archiveout import archive
from sandboxes.guest.agent.filelist import MOST_ENTRIES, list_folder
from sandboxes.guest.agent.fileread import read_file
from sandboxes.guest.agent.filesearch import MOST_RESULTS, Wanted, search
from sandboxes.guest.agent.filewatch import watch
from sandboxes.guest.agent.filewrite import Terms, write_file
from sandboxes.guest.agent.loop import Loop
from sandboxes.guest.agent.machine import Machine
from sandboxes.guest.agent.refusal import Refusal, shown
from sandboxes.guest.agent.streams import Stream
from sandboxes.guest.agent.workers import Job, Workers

Work = Callable[[Job], dict[str, Any]]
Plan = Callable[[bytes, p.Params], Work]
MOST_MODE = 0o7777
MOST_PATTERN_BYTES = 1024
MOST_EXCLUDED = 64
STREAMS = frozenset(("read", "write", "archive", "extract"))


class FileCalls:
    def __init__(self, loop: Loop, machine: Machine) -> None:
        self._loop, self._machine = loop, machine
        self._workers: Workers | None = None

    def methods(self) -> dict[str, Any]:
        plans: dict[str, Plan] = {
            "stat": _stat, "list": _list, "read": _read, "write": _write, "mkdir": _mkdir, "move": _move, "copy": _copy,
            "chmod": _chmod, "remove": _remove, "search": _search, "archive": _archive, "extract": _extract,
            "watch": _watch,
        }
        return {f"file.{name}": self._call(name, plan) for name, plan in plans.items()}

    def _call(self, name: str, plan: Plan) -> Callable[[Stream, p.Params], None]:
        def call(stream: Stream, params: p.Params) -> None:
            self._machine.require_serving()
            path = paths.checked(p.octets(params, "path"))
            account = account_of(p.text(params, "user", "user"))
            job = Job(self._loop, stream, account, plan(path, params), shown(path))
            if self._workers is None:
                self._workers = Workers()
            if name == "watch":
                self._workers.submit_apart(job)
            else:
                self._workers.submit(job, name in STREAMS)
        return call


def _stat(path: bytes, params: p.Params) -> Work:
    follow = p.flag(params, "follow", False)
    return lambda _job: stats.stat_path(path, follow)


def _list(path: bytes, params: p.Params) -> Work:
    limit = p.whole(params, "limit", 1000, least=1, most=MOST_ENTRIES)
    after, recursive = p.octets(params, "after", None), p.flag(params, "recursive")
    return lambda job: list_folder(job, path, limit, after, recursive)


def _read(path: bytes, params: p.Params) -> Work:
    offset, length = p.whole(params, "offset", 0), p.whole(params, "length", None)
    return lambda job: read_file(job, path, offset, length)


def _write(path: bytes, params: p.Params) -> Work:
    unwanted = p.text(params, "if_none_match", None)
    terms = Terms(_mode(params), p.text(params, "if_match", None), unwanted is not None)
    parents = p.flag(params, "parents")
    return lambda job: write_file(job, path, terms, parents)


def _mkdir(path: bytes, params: p.Params) -> Work:
    mode, parents = _mode(params), p.flag(params, "parents")
    return lambda _job: filechanges.make_folder(path, mode, parents)


def _move(path: bytes, params: p.Params) -> Work:
    to, overwrite, parents = _to(params), p.flag(params, "overwrite"), p.flag(params, "parents")
    return lambda job: filechanges.move(job, path, to, overwrite, parents)


def _copy(path: bytes, params: p.Params) -> Work:
    to, overwrite, parents = _to(params), p.flag(params, "overwrite"), p.flag(params, "parents")
    return lambda job: filechanges.copy(job, path, to, overwrite, parents)


def _chmod(path: bytes, params: p.Params) -> Work:
    mode = p.whole(params, "mode", least=0, most=MOST_MODE)
    return lambda _job: filechanges.change_mode(path, mode)


def _remove(path: bytes, params: p.Params) -> Work:
    recursive = p.flag(params, "recursive")
    return lambda job: filechanges.remove(job, path, recursive)


def _search(path: bytes, params: p.Params) -> Work:
    wanted = Wanted(_pattern(params, "pattern"), _pattern(params, "content"), _excluded(params),
                    p.flag(params, "any_case"), p.whole(params, "limit", 100, least=1, most=MOST_RESULTS))
    if wanted.content is not None and (b"\n" in wanted.content or not wanted.content):
        raise Refusal("invalid", "content must be a text within one line", field="content")
    after = p.octets(params, "after", None)
    return lambda job: search(job, path, wanted, after)


def _pattern(params: p.Params, name: str) -> bytes | None:
    found: bytes | None = p.octets(params, name, None)
    if found is not None and len(found) > MOST_PATTERN_BYTES:
        raise Refusal("invalid", f"{name} is too long: at most {MOST_PATTERN_BYTES} bytes", field=name)
    return found


def _excluded(params: p.Params) -> tuple[bytes, ...]:
    """Names, separated by NUL, which no name holds."""
    names = [name for name in (_pattern(params, "exclude") or b"").split(b"\0") if name]
    return tuple(names[:MOST_EXCLUDED])


def _archive(path: bytes, params: p.Params) -> Work:
    return lambda job: archive(job, path)


def _extract(path: bytes, params: p.Params) -> Work:
    parents = p.flag(params, "parents")
    return lambda job: extract(job, path, parents)


def _watch(path: bytes, params: p.Params) -> Work:
    recursive, exclude = p.flag(params, "recursive", True), _excluded(params)
    return lambda job: watch(job, path, recursive, exclude)


def _mode(params: p.Params) -> int | None:
    mode: int | None = p.whole(params, "mode", None, least=0, most=MOST_MODE)
    return mode


def _to(params: p.Params) -> bytes:
    return paths.checked(p.octets(params, "to"))
