"""The root disk: the system's tar, an ordinary user, sane names, and a journalled ext4 made without mounting anything.

Called by `build.py`. Nothing of Berth's runs from this disk: the agent and all it needs are on the tools disk.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from sandboxes.guest.image.shape import LEAST_DISK_GIB
from sandboxes.guest.image.system import ARCHIVE
from sandboxes.linux.processes import run_blocking

DISK = "root.img"
JOURNAL_MIB = 32
USER, USER_ID = "user", 1000

_FILES = {
    "etc/hostname": "workspace\n",
    "etc/hosts": "127.0.0.1\tlocalhost\n127.0.1.1\tworkspace\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    "etc/resolv.conf": "nameserver 10.77.0.1\noptions timeout:2 attempts:2\n",
    "etc/machine-id": "",
    "etc/fstab": "# The machine's agent mounts what is needed.\n",
    "etc/sudoers.d/user": f"{USER} ALL=(ALL:ALL) NOPASSWD:ALL\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/apt/apt.conf.d/90berth": 'APT::Install-Recommends "false";\n',
}
#: How a block that sets PATH begins in Debian's own profiles.
_SETS_PATH = re.compile(r'if \[ ("\$\(id -u\)" -eq 0|-d "\$HOME/(\.local/)?bin") \]')
_MODES = {"etc/sudoers.d/user": 0o440}


def build(folder: Path, system: Path) -> None:
    """Fills a folder with `root.img`, a sparse file of LEAST_DISK_GIB."""
    tree = folder / "tree"
    tree.mkdir()
    try:
        extract(system / ARCHIVE, tree)
        _furnish(tree)
        _make_disk(tree, folder / DISK)
    finally:
        shutil.rmtree(tree)


def extract(archive: Path, tree: Path) -> None:
    """With every extended attribute: a program's capabilities are one, and `ping` is nothing without."""
    run_blocking(["tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--file", str(archive),
                  "--directory", str(tree)], timeout_s=600)


def _furnish(tree: Path) -> None:
    _keep_path(tree / "etc/profile")
    _keep_path(tree / "etc/skel/.profile")
    run_blocking(["chroot", str(tree), "useradd", "--create-home", "--uid", str(USER_ID), "--user-group",
                  "--shell", "/bin/bash", "--groups", "sudo", USER])
    for name, text in _FILES.items():
        path = tree / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(_MODES.get(name, 0o644))
    for name in ("dev", "proc", "sys", "run"):
        (tree / name).mkdir(exist_ok=True)
    for lists in (tree / "var/lib/apt/lists").iterdir():
        if lists.is_file():
            lists.unlink()


def _keep_path(profile: Path) -> None:
    """Without the parts that set PATH anew: one PATH in terminal, exec and background, the one the agent gives."""
    kept, depth = [], 0
    for line in profile.read_text().splitlines(keepends=True):
        word = line.split()[0] if line.split() else ""
        if depth or _SETS_PATH.match(line):
            depth += (word == "if") - (word == "fi")
        elif word != "export" or line.split()[1:] != ["PATH"]:
            kept.append(line)
    profile.write_text("".join(kept))


def _make_disk(tree: Path, disk: Path) -> None:
    """`lazy_itable_init=0` writes the tables now (holes in a sparse file), so no guest does it in the background."""
    with disk.open("wb") as file:
        os.truncate(file.fileno(), LEAST_DISK_GIB << 30)
    run_blocking(["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), "-m", "1", "-L", "berth-root",
                  "-O", "has_journal", "-J", f"size={JOURNAL_MIB}",
                  "-E", "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", str(disk)], timeout_s=900)
    disk.chmod(0o444)
