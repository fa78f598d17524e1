"""Reads the headers of an archive that is sent in: the old form, ustar, GNU's and POSIX's (pax), and files with holes.

Called by `archivein`; pure but for `read`, which gives exactly so many bytes, or fewer at the end. Holds one header and
what belongs to it, bounded.
"""

from __future__ import annotations

from collections.abc import Callable

from sandboxes.guest.agent import tarheaders as tar
from sandboxes.guest.agent.tarheaders import BadArchive, Entry, Ranges

Read = Callable[[int], bytes]
MOST_BYTES = 2**62
_PLAIN = (b"\0", b"7")
_GZIP, _ZSTD, _ZIP, _XZ, _BZIP = b"\x1f\x8b", b"(\xb5/\xfd", b"PK\3\4", b"\xfd7zXZ", b"BZh"
Pax = dict[bytes, bytes]


def next_entry(read: Read) -> Entry | None:
    """The next entry, its bytes still to be read; None at the archive's end. Raises BadArchive."""
    pax: Pax = {}
    long_name = long_link = b""
    while True:
        block = _exactly(read, tar.BLOCK_BYTES)
        if not any(block):
            return None
        _check(block)
        kind = _field(block, tar.KIND)
        if kind == tar.LONG_NAME:
            long_name = _extra(read, block).rstrip(b"\0")
        elif kind == tar.LONG_LINK:
            long_link = _extra(read, block).rstrip(b"\0")
        elif kind == tar.PAX:
            pax = _records(_extra(read, block))
        elif kind == tar.PAX_GLOBAL:
            _extra(read, block)
        else:
            return _entry(read, block, long_name, long_link, pax)


def _entry(read: Read, block: bytes, long_name: bytes, long_link: bytes, pax: Pax) -> Entry:
    kind = _field(block, tar.KIND)
    name = pax.get(b"path") or long_name or _name(block)
    entry = Entry(kind=tar.FILE if kind in _PLAIN else kind, name=name,
                  size=_decimal(pax, b"size") if b"size" in pax else _number(_field(block, tar.SIZE)),
                  mode=_number(_field(block, tar.MODE)) & 0o7777, mtime=_mtime(block, pax),
                  link=pax.get(b"linkpath") or long_link or _text(_field(block, tar.LINK)))
    if entry.kind == tar.FILE and name.endswith(b"/"):
        entry = entry._replace(kind=tar.FOLDER)  # the old form has no kinds
    if entry.kind == tar.SPARSE:
        return _with_map(entry, _gnu_map(read, block), _number(_field(block, tar.REAL_SIZE)))
    if any(key.startswith(b"GNU.sparse.") for key in pax):
        return _pax_sparse(read, entry, pax)
    return entry._replace(size=0) if entry.kind not in (tar.FILE,) and entry.kind in b"123456" else entry


# -- holes -------------------------------------------------------------------------------------------------------------

def _gnu_map(read: Read, block: bytes) -> Ranges:
    data = _ranges(_field(block, tar.MAP))
    goes_on = _field(block, tar.EXTENDED) == b"\1"
    while goes_on:
        if len(data) > tar.MOST_RANGES:
            raise BadArchive("a file with too many holes")
        more = _exactly(read, tar.BLOCK_BYTES)
        data += _ranges(_field(more, tar.MORE_MAP))
        goes_on = _field(more, tar.MORE_EXTENDED) == b"\1"
    return data


def _ranges(raw: bytes) -> Ranges:
    found = []
    for at in range(0, len(raw), 2 * tar.NUMBER_BYTES):
        offset, length = raw[at:at + tar.NUMBER_BYTES], raw[at + tar.NUMBER_BYTES:at + 2 * tar.NUMBER_BYTES]
        if not any(offset) and not any(length):
            break
        found.append((_number(offset), _number(length)))
    return found


def _pax_sparse(read: Read, entry: Entry, pax: Pax) -> Entry:
    entry = entry._replace(kind=tar.SPARSE, name=pax.get(b"GNU.sparse.name", entry.name))
    if b"GNU.sparse.map" in pax:  # form 0.1
        numbers = pax[b"GNU.sparse.map"].split(b",")
        return _with_map(entry, _pairs(numbers), _decimal(pax, b"GNU.sparse.size"))
    if pax.get(b"GNU.sparse.major") != b"1":
        raise BadArchive("holes in a form that is not understood")
    used, numbers = _map_in_data(read, entry.size)
    return _with_map(entry._replace(size=entry.size - used), _pairs(numbers), _decimal(pax, b"GNU.sparse.realsize"))


def _map_in_data(read: Read, size: int) -> tuple[int, list[bytes]]:
    """(bytes taken, numbers): form 1.0 begins the data with a count and pairs, a line each, filled up to a block."""
    held, used = b"", 0
    while used < size and len(held) <= 2 * 22 * tar.MOST_RANGES:
        held += _exactly(read, tar.BLOCK_BYTES)
        used += tar.BLOCK_BYTES
        lines = held.split(b"\n")
        if len(lines) > 1 and lines[0].isdigit() and len(lines) > 2 * int(lines[0][:7]) + 1:
            return used, lines[1:2 * int(lines[0][:7]) + 1]
    raise BadArchive("a file whose holes cannot be read")


def _pairs(numbers: list[bytes]) -> Ranges:
    if len(numbers) % 2 or len(numbers) > 2 * tar.MOST_RANGES or not all(n.isdigit() and len(n) < 20 for n in numbers):
        raise BadArchive("a file whose holes cannot be read")
    return [(int(numbers[at]), int(numbers[at + 1])) for at in range(0, len(numbers), 2)]


def _with_map(entry: Entry, data: Ranges, real_size: int) -> Entry:
    """Held to its word: ranges in order, within the file, and as much as follows."""
    end = 0
    for offset, length in data:
        if offset < end or length < 0 or offset + length > real_size:
            raise BadArchive("a file whose holes contradict its size")
        end = offset + length
    if sum(length for _, length in data) != entry.size or real_size > MOST_BYTES:
        raise BadArchive("a file whose holes contradict its size")
    return entry._replace(data=data, real_size=real_size)


# -- fields ------------------------------------------------------------------------------------------------------------

def _exactly(read: Read, size: int) -> bytes:
    data = read(size)
    if len(data) != size:
        raise BadArchive("it ends in the middle" if data else "it ends without its end: two blocks of zeros")
    return data


def _check(block: bytes) -> None:
    said = _field(block, tar.CHECKSUM)
    try:
        sound = _number(said) == tar.checksum(block)
    except BadArchive:
        sound = False
    if not sound:
        packed = block.startswith((_GZIP, _ZSTD, _ZIP, _XZ, _BZIP))
        raise BadArchive("it is compressed: send the plain tar" if packed else "it is no tar archive, or a damaged one")


def _extra(read: Read, block: bytes) -> bytes:
    size = _number(_field(block, tar.SIZE))
    if size > tar.MOST_EXTRA_BYTES:
        raise BadArchive(f"a header of {size} bytes: at most {tar.MOST_EXTRA_BYTES}")
    return _exactly(read, size + tar.padding(size))[:size]


def _records(raw: bytes) -> Pax:
    """LENGTH KEY=VALUE, a line each; the length counts itself."""
    found: Pax = {}
    while raw:
        length, _, _ = raw.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not len(length) < int(length) <= len(raw):
            raise BadArchive("a pax header that cannot be read")
        key, equals, value = raw[len(length) + 1:int(length)].partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise BadArchive("a pax header that cannot be read")
        found[key], raw = value[:-1], raw[int(length):]
    return found


def _decimal(pax: Pax, key: bytes) -> int:
    value = pax.get(key, b"")
    if not value.isdigit() or len(value) > 18:
        raise BadArchive(f"a pax header without a sound {key.decode()}")
    return int(value)


def _mtime(block: bytes, pax: Pax) -> float:
    try:
        value = float(pax[b"mtime"]) if b"mtime" in pax else float(_number(_field(block, tar.MTIME)))
    except (ValueError, BadArchive):
        return 0.0  # a file from before 1970 is as old as that
    return value if 0 <= value < 2**33 else 0.0


def _name(block: bytes) -> bytes:
    name, prefix = _text(_field(block, tar.NAME)), b""
    if _field(block, tar.MAGIC).startswith(b"ustar\0"):
        prefix = _text(_field(block, tar.PREFIX))
    return prefix + b"/" + name if prefix else name


def _field(block: bytes, where: tuple[int, int]) -> bytes:
    return block[where[0]:where[1]]


def _text(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


def _number(raw: bytes) -> int:
    """Octal, or binary as GNU writes it. Raises BadArchive, also at what is negative or has no bound."""
    if raw[:1] and raw[0] & 0x80:
        value = int.from_bytes(bytes([raw[0] & 0x7F]) + raw[1:], "big") if raw[0] & 0x40 == 0 else -1
    else:
        text = raw.replace(b"\0", b" ").split()
        if not text:
            return 0
        if len(text) > 1 or not all(ord("0") <= digit <= ord("7") for digit in text[0]):
            raise BadArchive("a number that cannot be read")
        value = int(text[0], 8)
    if not 0 <= value <= MOST_BYTES:
        raise BadArchive("a number beyond all bounds")
    return value
