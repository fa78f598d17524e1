"""Runs INSIDE a machine, as `python3 -c TEXT FOLDER`: every file below it, as JSON lines, in the order of paths' bytes.

Sent by `workspace.py`, and run as root there. Stdlib only, and small enough for one argument. What a checkpoint must
give back is all here: path, type, mode, owner, extended attributes, link targets, content. `change` makes a next state
of the tree, as another seed makes another; everything is on the disk when it returns.
"""

import base64
import contextlib
import hashlib
import json
import os
import random
import stat
import struct
import sys

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFCHR: "character_device", stat.S_IFBLK: "block_device"}
MADE = ["file", "file", "file", "sparse", "hard", "symlink", "fifo", "socket", "device"]


#: user::rw-, user:1000:r--, group::r--, mask::r--, other::---
ACCESS_LIST = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, who) for tag, perm, who in (
    (1, 6, 0xFFFFFFFF), (2, 4, 1000), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)))
NET_BIND = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)


def text(data):
    return base64.b64encode(data).decode()


def content(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def row(path, top):
    found = os.lstat(path)
    kind = KINDS.get(stat.S_IFMT(found.st_mode), "other")
    said = {"path": text(os.path.relpath(path, top)), "type": kind, "mode": stat.S_IMODE(found.st_mode),
            "owner": [found.st_uid, found.st_gid],
            "xattr": sorted([name, text(os.getxattr(path, name, follow_symlinks=False))]
                            for name in os.listxattr(path, follow_symlinks=False))}
    if kind == "file":
        said.update(size=found.st_size, sha256=content(path))
    if kind == "symlink":
        said["target"] = text(os.readlink(path))
    if kind.endswith("device"):
        said["device"] = found.st_rdev
    return said


def manifest(top):
    rows = [row(top, top)]
    for folder, folders, files in os.walk(top):
        rows += [row(os.path.join(folder, name), top) for name in folders + files]
    return sorted(rows, key=lambda said: base64.b64decode(said["path"]))


def change(top, seed):
    """A few files of every kind more, some changed in the middle, some gone."""
    chance = random.Random(seed)
    os.makedirs(top, exist_ok=True)
    for n in range(6):
        folder = os.path.join(top, b"d%d" % chance.randrange(8))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, bytes(chance.choice(b"ab\xff\n \x80z") for _ in range(5)) + b"%d" % n)
        make(path, chance)
    present = [os.path.join(folder, name) for folder, _, files in os.walk(top) for name in files]
    for path in chance.sample(sorted(present), min(len(present), 3)):
        if chance.random() < 0.5:
            os.unlink(path)
        elif stat.S_ISREG(os.lstat(path).st_mode):
            with open(path, "r+b") as file:
                file.seek(chance.randrange(1 + os.path.getsize(path)))
                file.write(chance.randbytes(chance.randrange(5000)))
    os.sync()


def make(path, chance):
    if os.path.lexists(path):
        return
    kind = chance.choice(MADE)
    owner = chance.choice([0, 1000, 54321])
    if kind == "symlink":
        os.symlink(b"../" + path[-5:], path)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o640)
    elif kind == "device":
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    elif kind == "hard" and (others := files_beside(path)):
        os.link(chance.choice(others), path)
    else:
        with open(path, "wb") as file:
            if kind == "sparse":
                file.seek(chance.randrange(1 << 20))
            file.write(chance.randbytes(chance.randrange(60_000)))
        os.chown(path, owner, owner)
        os.chmod(path, chance.choice([0o600, 0o644, 0o4755, 0o440]) | 0o200)
        tag(path, chance)
    os.chown(path, owner, owner, follow_symlinks=False)
    if kind == "file" and chance.random() < 0.3:
        os.chmod(path, 0o6755)


def files_beside(path):
    folder = os.path.dirname(path)
    found = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    return [other for other in found if stat.S_ISREG(os.lstat(other).st_mode)]


def tag(path, chance):
    """A file system without attributes has none in any manifest. The last two are an access list and a capability."""
    value = chance.randbytes(8)
    for name, content in (("user.soak", value), ("system.posix_acl_access", ACCESS_LIST),
                          ("security.capability", NET_BIND)):
        if chance.random() < 0.5:
            with contextlib.suppress(OSError):
                os.setxattr(path, name, content)


if __name__ == "__main__":
    folder = os.fsencode(sys.argv[1])
    if len(sys.argv) > 2:
        change(folder, int(sys.argv[2]))
    for said in manifest(folder):
        print(json.dumps(said))
