"""Kernel, initramfs and tools disk from the parts and the agent's sources. Called by `build.py`; takes seconds.

The initramfs inserts the virtio modules, mounts the tools disk read-only at TOOLS_MOUNT, and hands over to busybox'
init in a small memory file system: a real mount, so that the agent's later pivot_root moves every process into the
root disk, pid 1 included. Init keeps the agent running and reaps.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

from sandboxes.guest.image import cpio
from sandboxes.guest.image.recipe import PACKAGE_ROOT, agent_sources
from sandboxes.guest.image.shape import TOOLS_MOUNT, TOOLS_SERIAL
from sandboxes.linux.processes import run_blocking

KERNEL, INITRAMFS, TOOLS = "vmlinuz", "initramfs", "tools.img"
MIB = 1 << 20

_INIT = f"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs -o mode=0755,nosuid dev /dev
$b mount -t proc -o nosuid,nodev,noexec proc /proc
$b mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
$b mount -t tmpfs -o mode=0755,nosuid,nodev run /run
for module in /modules/*.ko; do $b insmod $module; done
$b mkdir -p {TOOLS_MOUNT} /world
try=0
while ! tools=$($b grep -lx -e {TOOLS_SERIAL} -e tools /sys/block/vd*/serial 2>/dev/null); do
    try=$((try + 1))
    [ $try -gt 200 ] && echo "berth: no tools disk" >/dev/console && $b poweroff -f
    $b usleep 20000
done
tools=${{tools%/serial}}
$b mount -t ext4 -o ro,nodev "/dev/${{tools##*/}}" {TOOLS_MOUNT} || $b poweroff -f
$b mount -t tmpfs -o mode=0755,size=1m world /world
$b mkdir -p /world/dev /world/proc /world/sys /world/run /world/etc /world/root-disk /world/tmp
$b cp /etc/inittab /world/etc/inittab
for folder in dev proc sys run; do $b mount --move /$folder /world/$folder; done
exec $b switch_root /world {TOOLS_MOUNT}/bin/busybox init
"""

#: No shell between init and the agent: one process less, and one program less to page in.
_INITTAB = (f"::respawn:{TOOLS_MOUNT}/lib/ld.so --library-path {TOOLS_MOUNT}/lib {TOOLS_MOUNT}/bin/python3 "
            f"-I -S -B -X utf8 {TOOLS_MOUNT}/agent\n")

#: `python3 FOLDER` runs FOLDER/__main__.py with the folder first on its path.
_ENTRY = '''"""Runs the agent from the tools disk."""

import sys

from sandboxes.guest.agent.__main__ import main

main(sys.argv[1:])
'''


#: Run by users: the interpreter is ours, whatever the guest did to its own.
_HOLD = f"""#!{TOOLS_MOUNT}/bin/busybox sh
exec {TOOLS_MOUNT}/lib/ld.so --library-path {TOOLS_MOUNT}/lib {TOOLS_MOUNT}/bin/python3 -I -S -B -X utf8 \\
    {TOOLS_MOUNT}/agent/sandboxes/guest/agent/holdclient.py "$@"
"""


def build(folder: Path, parts: Path) -> None:
    shutil.copy(parts / "vmlinuz", folder / KERNEL)
    _make_initramfs(folder / INITRAMFS, parts)
    tree = folder / "tree"
    shutil.copytree(parts / "tree", tree, symlinks=True)
    try:
        _add_agent(tree)
        _let_all_read(tree)
        _make_disk(tree, folder / TOOLS)
    finally:
        shutil.rmtree(tree)
    for name in (KERNEL, INITRAMFS, TOOLS):
        (folder / name).chmod(0o444)


def _make_initramfs(target: Path, parts: Path) -> None:
    entries = [cpio.folder(name) for name in ("bin", "dev", "etc", "modules", "proc", "run", "sys")]
    entries.append(cpio.character_device("dev/console", 5, 1))
    entries.append(cpio.file("bin/busybox", (parts / "tree/bin/busybox").read_bytes(), 0o755))
    entries.append(cpio.file("init", _INIT.encode(), 0o755))
    entries.append(cpio.file("etc/inittab", _INITTAB.encode(), 0o644))
    for module in sorted((parts / "boot-modules").iterdir()):
        entries.append(cpio.file(f"modules/{module.name}", module.read_bytes(), 0o644))
    target.write_bytes(cpio.archive(entries))


def _add_agent(tree: Path) -> None:
    home = tree / "agent"
    for source in agent_sources():
        target = home / source.relative_to(PACKAGE_ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    (home / "__main__.py").write_text(_ENTRY)
    hold = tree / "commands" / "berth-hold"
    hold.parent.mkdir()
    hold.write_text(_HOLD)
    hold.chmod(0o755)
    _precompile(tree)


def _let_all_read(tree: Path) -> None:
    """Whatever umask the builder had: every user of the guest runs `commands/`, and with it the interpreter."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)


def _precompile(tree: Path) -> None:
    """By the very interpreter that will run it; the hash is not checked, for the disk is read-only."""
    library = tree / "lib"
    run_blocking([str(library / "ld.so"), "--library-path", str(library), str(tree / "bin/python3"), "-I", "-S", "-m",
                  "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash", "-s", str(tree),
                  "-p", TOOLS_MOUNT, str(tree / "agent"), *map(str, library.glob("python3.*"))], timeout_s=600)


def _make_disk(tree: Path, disk: Path) -> None:
    """A read-only ext4 without journal: ext4 is the one file system built into every kernel used here."""
    used = sum(math.ceil(path.lstat().st_size / 4096) * 4096 + 512 for path in tree.rglob("*"))
    with disk.open("wb") as file:
        os.truncate(file.fileno(), (math.ceil(used * 1.08 / MIB) + 8) * MIB)
    run_blocking(["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), "-b", "4096", "-m", "0", "-L", "berth-tools",
                  "-O", "^has_journal,^resize_inode", "-E", "root_owner=0:0", str(disk)], timeout_s=300)
