"""Real disks for the tests of looks: ext4 made by mke2fs and changed by debugfs, in qcow2 chains made by the product.

No machine and no mount: debugfs writes into the chain's flat copy, and what differs from below becomes the next layer,
cluster by cluster, as a guest's writes would.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from sandboxes.linux import disks
from sandboxes.linux.disks import Chain

MIB = 1 << 20
CLUSTER = 64 * 1024


class Disk:
    """A machine's disk folder that grows by layers; `flat` is what the head reads as."""

    def __init__(self, folder: Path, tree: Path | None, size_mib: int = 64, *options: str) -> None:
        self.folder, self.flat = folder, folder.parent / f"{folder.name}.flat"
        folder.mkdir(parents=True)
        with (folder / "base.img").open("wb") as base:
            base.truncate(size_mib * MIB)
        given = ["-d", str(tree)] if tree is not None else []
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", *options, *given, str(folder / "base.img")],
                       check=True)
        disks.copy_sparse(folder / "base.img", self.flat)
        self.chain = Chain("base.img", (), "head-1.qcow2", size_mib * MIB)
        asyncio.run(disks.create_head(folder, self.chain))
        disks.write_chain(folder, self.chain)

    def debugfs(self, *commands: str) -> None:
        """Changes the file system as a guest would, then writes what changed into the head."""
        done = subprocess.run(["debugfs", "-w", "-f", "-", str(self.flat)], input="\n".join(commands) + "\n",
                              text=True, capture_output=True, check=True)
        complaints = [line for line in done.stderr.splitlines() if not line.startswith("debugfs ")]
        assert not complaints, done.stderr
        self.into_head()

    def into_head(self) -> None:
        """qemu-io writes each cluster of `flat` that the chain does not hold yet."""
        now = self.folder.parent / f"{self.folder.name}.now"
        subprocess.run(["qemu-img", "convert", "-O", "raw", str(self.folder / self.chain.head), str(now)], check=True)
        writes = []
        with self.flat.open("rb") as flat, now.open("rb") as seen:
            for at in range(0, self.chain.size_bytes, CLUSTER):
                if (data := flat.read(CLUSTER)) != seen.read(CLUSTER):
                    piece = self.folder.parent / f"piece-{at}"
                    piece.write_bytes(data)
                    writes += ["-c", f"write -s {piece} {at} {len(data)}"]
        if writes:
            subprocess.run(["qemu-io", "-f", "qcow2", *writes, str(self.folder / self.chain.head)], check=True,
                           stdout=subprocess.DEVNULL)
        for piece in self.folder.parent.glob("piece-*"):
            piece.unlink()
        now.unlink()

    def freeze(self, into: Path) -> None:
        """A checkpoint of the disk as it is."""
        self.chain = asyncio.run(disks.freeze(self.folder, into))


def names_of_any_bytes() -> list[bytes]:
    """Every byte that a name may hold, some in each, and what shells and parsers stumble over."""
    every = [bytes([n]) for n in range(1, 256) if n != ord("/")]
    runs = [b"x" + b"".join(every[n:n + 50]) for n in range(0, len(every), 50)]
    return [*runs, b"-rf", b"a b\nc", b"\xff\xfe", b'"quoted"\\', "früh.txt".encode(), b"n" * 255]


def write(path: Path | bytes, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def sample_tree(folder: Path) -> Path:
    tree = folder / "tree"
    for name in ("etc", "home/user/deep/er", "empty", "home/user/odd"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    write(tree / "home/user/a.txt", b"hello\n")
    write(tree / "home/user/deep/er/big", os.urandom(3 * MIB + 17))
    with (tree / "home/user/sparse").open("wb") as sparse:
        sparse.truncate(20 * MIB)
        sparse.seek(10 * MIB)
        sparse.write(b"island")
    os.link(tree / "home/user/a.txt", tree / "home/user/hard")
    os.symlink("/home/user/a.txt", tree / "absolute")
    os.symlink("../../../../../../../../etc/passwd", tree / "home/user/outward")
    os.symlink("loop", tree / "loop")
    os.symlink("x" * 200 + "/none", tree / "long")
    os.mkfifo(tree / "fifo")
    for name in names_of_any_bytes():
        write(os.fsencode(tree / "home/user/odd") + b"/" + name, name)
    for path in (tree / "home/user", tree / "home/user/a.txt"):
        os.chown(path, 1000, 1000)
    (tree / "home/user/a.txt").chmod(0o640)
    return tree
