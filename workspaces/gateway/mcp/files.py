"""Tools for the guest's files: read, write, edit, list, search. Listed by `catalog`; each is REST's own calls.

Reads come in bounded pieces with the file's ETag; writes are whole or not at all. An edit reads, replaces exactly what
it was told and writes only over what it has read, so a change that somebody made meanwhile is never lost.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from pydantic import Field

from workspaces.gateway.mcp import cut
from workspaces.gateway.mcp.inside import Refused, refusal
from workspaces.gateway.mcp.tool import (
    READS,
    REPLACES,
    Data,
    InWorkspace,
    Said,
    Session,
    Tool,
)

SHOWN_BYTES = 48 * 1024
MOST_SHOWN_BYTES = 512 * 1024
#: Of one file's lines that contain what was looked for, and of one line.
SHOWN_MATCHES, SHOWN_TEXT = 10, 240
MOST_EDITED_BYTES = 8 * 1024 * 1024
ENCODED = re.compile(r"(?:[A-Za-z0-9_.~/!$'()*,;:@-]|%[0-9A-Fa-f]{2})+")

User = Annotated[str | None, Field(description="With this guest user's permissions, e.g. root; default: user")]


class InFiles(InWorkspace):
    path: Annotated[str | None, Field(min_length=1, description="Absolute path")] = None
    path_encoded: Annotated[str | None, Field(
        min_length=1, description="Instead of path, for a name that is not UTF-8: its bytes percent-encoded, as lists "
                                  "have them")] = None
    user: User = None


class ReadFile(InFiles):
    offset: Annotated[int, Field(ge=0, description="From this byte on; the answer says the next one")] = 0
    limit_bytes: Annotated[int, Field(ge=1, le=MOST_SHOWN_BYTES)] = SHOWN_BYTES
    encoding: Annotated[Literal["text", "base64"], Field(
        description="text: what is not UTF-8 is shown as U+FFFD and said to be so; base64: byte for byte")] = "text"


class WriteFile(InFiles):
    content: Annotated[str | None, Field(description="The whole new content")] = None
    content_base64: Annotated[str | None, Field(description="Instead of content, for bytes that are no text")] = None
    mode: Annotated[str | None, Field(pattern="^[0-7]{3,4}$", description="Octal, of a new file; default 0644")] = None
    parents: Annotated[bool, Field(description="Make missing folders")] = True
    if_etag: Annotated[str | None, Field(
        description="Only over the content that read_file gave this etag; else precondition_failed")] = None
    only_new: Annotated[bool, Field(description="Only if nothing is there; else precondition_failed")] = False


class EditFile(InFiles):
    old_text: Annotated[str, Field(min_length=1, description="Exactly what is there, blanks and line ends included")]
    new_text: Annotated[str, Field(description="What shall be there instead")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence; else there must be exactly one")] = False
    if_etag: Annotated[str | None, Field(description="Only if the file is still as read_file gave it")] = None


class ListFiles(InFiles):
    recursive: bool = False
    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    cursor: Annotated[str | None, Field(description="next_cursor of the answer before")] = None


class SearchFiles(InFiles):
    pattern: Annotated[str | None, Field(
        min_length=1, description="Of names, as in a shell: *.py; with a / in it, of the path below path")] = None
    content: Annotated[str | None, Field(min_length=1, description="Text within one line, byte for byte")] = None
    any_case: Annotated[bool, Field(description="Letters of content in either case")] = False
    exclude: Annotated[str | None, Field(description="Names to pass over, by commas: .git,node_modules")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="Files at most")] = 30
    cursor: Annotated[str | None, Field(description="next_cursor of the answer before")] = None


def named(given: InFiles, **more: object) -> str:
    """The query that names the path, its bytes exactly."""
    if (given.path is None) == (given.path_encoded is None):
        raise refusal("invalid", "Say path, or path_encoded.", errors={"path": ["Exactly one of the two is needed."]})
    if given.path_encoded is not None and not ENCODED.fullmatch(given.path_encoded):
        raise refusal("invalid", "path_encoded is not percent-encoded.", errors={"path_encoded": ["Not encoded."]})
    path = given.path_encoded or quote((given.path or "").encode("utf-8", "surrogatepass"), safe="/")
    kept = {k: v for k, v in more.items() if v is not None}
    if given.user is not None:
        kept["user"] = given.user
    return f"path={path}" + (f"&{urlencode(kept)}" if kept else "")


def label(given: InFiles) -> str:
    return given.path or given.path_encoded or ""


async def read(session: Session, given: ReadFile) -> Said:
    last = given.offset + given.limit_bytes - 1
    address, query = f"{session.base(given)}/files/content", named(given)
    try:
        reply = await session.api.ask("GET", address, query, headers={"range": f"bytes={given.offset}-{last}"},
                                      most_bytes=given.limit_bytes)
    except Refused as refused:
        if refused.problem["code"] != "range_not_satisfiable":
            raise
        reply = await session.api.ask("HEAD", address, query)  # the offset is at or beyond the end
    size = _size(reply.header("content-range"), reply.header("content-length"))
    data = reply.body
    if given.encoding == "text" and size is not None and given.offset + len(data) < size:
        data = cut.whole_characters(data) or data
    following = given.offset + len(data)
    more = reply.cut or (size is not None and following < size)
    told: Data = {"path": label(given), "size": size, "etag": bare(reply.header("etag")), "offset": given.offset,
                  "next_offset": following if more else None}
    return _told(told, data, given)


def _told(told: Data, data: bytes, given: ReadFile) -> Said:
    if given.encoding == "base64":
        told.update(encoding="base64", content=base64.b64encode(data).decode())
    else:
        seen = cut.shown(data)
        told["content"] = seen.text
        if not seen.is_utf8:
            told.update(not_utf8=True, hint='encoding="base64" gives the exact bytes; edit_file keeps them')
    ends = told["next_offset"]
    head = f"{told['path']}: bytes {told['offset']} to {told['offset'] + len(data)} of {told['size']}"
    rest = f"; there is more: ask again with offset={ends}" if ends is not None else ""
    mark = "; not all of it is UTF-8" if told.get("not_utf8") else ""
    return Said(f"{head}{rest}{mark}; etag {told['etag']}\n{told['content']}", told)


def _size(content_range: str | None, content_length: str | None) -> int | None:
    total = (content_range or "").rpartition("/")[2] or content_length or ""
    return int(total) if total.isdigit() else None


async def write(session: Session, given: WriteFile) -> Said:
    if (given.content is None) == (given.content_base64 is None):
        raise refusal("invalid", "Say content, or content_base64.",
                      errors={"content": ["Exactly one of the two is needed."]})
    return await _put(session, given, _bytes_of(given), given.if_etag,
                      query=named(given, mode=given.mode, parents="true" if given.parents else None),
                      only_new=given.only_new)


def _bytes_of(given: WriteFile) -> bytes:
    if given.content is not None:
        return given.content.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(given.content_base64 or "", validate=True)
    except binascii.Error:
        raise refusal("invalid", "content_base64 is not base64.", errors={"content_base64": ["Not base64."]}) from None


async def _put(session: Session, given: InFiles, data: bytes, etag: str | None, query: str, only_new: bool = False
               ) -> Said:
    headers = {"content-type": "application/octet-stream"}
    if etag is not None:
        headers["if-match"] = quoted(etag)
    if only_new:
        headers["if-none-match"] = "*"
    reply = await session.api.ask("PUT", f"{session.base(given)}/files/content", query, data, headers)
    said = reply.json()
    created = reply.status == 201
    told = {"path": label(given), "size": said.get("size"), "etag": bare(said.get("etag")), "created": created}
    verb = "Created" if created else "Replaced"
    return Said(f"{verb} {label(given)}: {told['size']} bytes, etag {told['etag']}", told)


def bare(etag: str | None) -> str:
    """An entity tag without its header's quotes: one spelling for everything a tool says or takes."""
    return (etag or "").strip().removeprefix("W/").strip('"')


def quoted(etag: str) -> str:
    said = bare(etag)
    if not said.isprintable() or not said.isascii() or '"' in said:
        raise refusal("invalid", "This is no etag of ours.", errors={"if_etag": ["Not an etag."]})
    return f'"{said}"'


async def edit(session: Session, given: EditFile) -> Said:
    query = named(given)
    reply = await session.api.ask("GET", f"{session.base(given)}/files/content", query, most_bytes=MOST_EDITED_BYTES)
    if reply.cut:
        raise refusal("too_large", f"Files of more than {MOST_EDITED_BYTES} bytes are edited with exec.",
                      limit_bytes=MOST_EDITED_BYTES)
    etag = bare(reply.header("etag"))
    if given.if_etag is not None and bare(given.if_etag) != etag:
        raise refusal("precondition_failed", "The file is not the one you read; read it again.", etag=etag)
    old, new = given.old_text.encode("utf-8", "surrogatepass"), given.new_text.encode("utf-8", "surrogatepass")
    found = occurrences(reply.body, old)
    if not found:
        raise refusal("conflict", "old_text is not in the file; nothing was changed. Read it again and copy exactly "
                                  "what is there.", reason="text_not_found", etag=etag)
    if len(found) > 1 and not given.replace_all:
        lines = [reply.body.count(b"\n", 0, at) + 1 for at in found[:20]]
        raise refusal("conflict", f"old_text is there {len(found)} times; nothing was changed. Say more of what is "
                                  "around it, or replace_all.", reason="text_not_unique", count=len(found), lines=lines)
    said = await _put(session, given, reply.body.replace(old, new), etag, query)
    return Said(f"{said.text}; {len(found)} replaced", {**said.data, "replaced": len(found)})


def occurrences(data: bytes, wanted: bytes) -> list[int]:
    """Where it is, without overlaps: what `replace` would replace."""
    found, at = [], data.find(wanted)
    while at >= 0:
        found.append(at)
        at = data.find(wanted, at + len(wanted))
    return found


async def listing(session: Session, given: ListFiles) -> Said:
    query = named(given, limit=given.limit, recursive="true" if given.recursive else None)
    if given.cursor is not None:
        query += f"&cursor={quote(given.cursor, safe='%')}"
    seen = await session.api.get(f"{session.base(given)}/files", query)
    if "entries" not in seen:
        return Said(_line(_entry(seen)), _entry(seen))
    entries = [_entry(one) for one in seen["entries"]]
    following = cursor_of(seen.get("next"))
    rest = f'\n[there is more: ask again with cursor="{following}"]' if following else ""
    text = "\n".join([f"{label(given)}: {len(entries)} entries", *(_line(one) for one in entries)])
    return Said(text + rest, {**_entry(seen), "entries": entries, "next_cursor": following})


def _entry(seen: Data) -> Data:
    kept = ("path", "type", "size", "mode", "owner", "group", "mtime", "target", "etag")
    entry = {name: seen[name] for name in kept if seen.get(name) is not None}
    if "etag" in entry:
        entry["etag"] = bare(entry["etag"])
    if "�" in str(seen.get("path")):
        entry["path_encoded"] = seen.get("path_encoded")
    return entry


def _line(entry: Data) -> str:
    target = f" -> {entry['target']}" if "target" in entry else ""
    name = entry.get("path_encoded")
    return (f"{entry.get('mode', '')} {entry.get('owner', '')} {entry.get('size', 0)} {entry.get('type')} "
            f"{entry.get('path')}{target}" + (f" (path_encoded {name})" if name else ""))


def cursor_of(following: str | None) -> str | None:
    """The cursor in a list's `next`, spelled as it is there."""
    query = (following or "").partition("?")[2]
    return next((pair[len("cursor="):] for pair in query.split("&") if pair.startswith("cursor=")), None)


async def search(session: Session, given: SearchFiles) -> Said:
    if given.pattern is None and given.content is None:
        raise refusal("invalid", "Say what to look for.", errors={"pattern": ["pattern or content is needed."]})
    query = named(given, pattern=given.pattern, content=given.content, limit=given.limit, exclude=given.exclude,
                  any_case="true" if given.any_case else None)
    if given.cursor is not None:
        query += f"&cursor={quote(given.cursor, safe='%')}"
    seen = await session.api.get(f"{session.base(given)}/files/search", query)
    following = cursor_of(seen.get("next"))
    files = [found(one) for one in seen["results"]]
    rest = f'\n[there is more: ask again with cursor="{following}"]' if following else ""
    lines = [line for one in files for line in _lines(one)] or ["Nothing found."]
    return Said("\n".join(lines) + rest, {"results": files, "searched": seen.get("searched"), "next_cursor": following})


def found(seen: Data) -> Data:
    """A file, and the first of its lines; each as far as it helps to choose."""
    if "matches" not in seen:
        return _entry(seen)
    matches = [{**one, "text": str(one["text"])[:SHOWN_TEXT]} for one in seen["matches"][:SHOWN_MATCHES]]
    cut_off = bool(seen.get("cut")) or len(seen["matches"]) > SHOWN_MATCHES
    return {"path": seen["path"], "size": seen.get("size"), "matches": matches, **({"cut": True} if cut_off else {})}


def _lines(file: Data) -> list[str]:
    if "matches" not in file:
        return [_line(file)]
    lines = [f"{file['path']}:{one['line']}: {one['text']}" for one in file["matches"]]
    return [*lines, f"[{file['path']} has more such lines]"] if file.get("cut") else lines


TOOLS = (
    Tool("read_file", "Read a file", (
        "A file's content from a byte offset on, at most limit_bytes of it, with the file's size and etag. "
        "next_offset says where the next piece begins, and is null at the end."
    ), "files:read", ReadFile, read, READS),
    Tool("write_file", "Write a file", (
        "Make a file or replace its whole content; whole or not at all. Pass the etag of read_file as if_etag, and a "
        "change that somebody made meanwhile is refused (precondition_failed) instead of lost. For a part of a file "
        "edit_file is better; for large files exec."
    ), "files:write", WriteFile, write, REPLACES),
    Tool("edit_file", "Replace text in a file", (
        "Replace old_text by new_text. old_text must be in the file exactly once (else conflict: text_not_found or "
        "text_not_unique, with the lines), or everywhere with replace_all. A change that somebody made between the "
        "read and the write is never lost: then it is precondition_failed, and nothing was changed."
    ), "files:write", EditFile, edit, REPLACES),
    Tool("list_files", "List a folder", (
        "What is at a path: type, size, mode, owner, time; of a folder the entries, in pieces that next_cursor goes on "
        "from; with recursive=true everything below."
    ), "files:read", ListFiles, listing, READS),
    Tool("search_files", "Search files", (
        "Find files below a folder by name (pattern), by what a line contains (content), or by both; the first lines "
        "of each are shown with their numbers, and next_cursor goes on."
    ), "files:read", SearchFiles, search, READS),
)
