"""What the boot parts are made of, taken once from the system: kernel, modules, busybox, an interpreter of our own.

Called by `build.py`. The result is a folder `parts/` that `boot.py` turns into initramfs and tools disk together with
the agent; it does not change when the agent does.

    vmlinuz  boot-modules/*.ko  tree/{bin,lib,sbin}
"""

from __future__ import annotations

import lzma
import re
import shutil
from pathlib import Path

from sandboxes.guest.image import rootfs
from sandboxes.guest.image.shape import BOOT_MODULES
from sandboxes.guest.image.system import ARCHIVE
from sandboxes.linux.processes import run_blocking

#: Of the standard library, what neither the agent nor a traceback needs.
_LIBRARY_LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "distutils", "pydoc_data", "unittest",
    "xmlrpc", "wsgiref", "curses", "dbm", "sqlite3", "multiprocessing", "concurrent", "asyncio", "venv",
    "site-packages", "dist-packages", "config-*", "__pycache__", "turtle.py", "pydoc.py", "doctest.py", "_pydecimal.py",
    "_sqlite3*", "_curses*", "_tkinter*", "_dbm*", "_test*", "_xxtest*", "_decimal*", "_codecs_*", "_asyncio*")
_LIBRARY_LINE = re.compile(r"=> (/\S+)|^\s*(/\S+) \(", re.MULTILINE)


def build(folder: Path, system: Path) -> None:
    kernel, busybox = folder / "kernel-package", folder / "busybox-package"
    _unpack(_one(system, "linux-image-*.deb"), kernel)
    _unpack(_one(system, "busybox-static_*.deb"), busybox)
    shutil.copy(_one(kernel / "boot", "vmlinuz-*"), folder / "vmlinuz")
    release = _one(_modules_of(kernel), "*").name
    tree = folder / "tree"
    for name in ("bin", "lib", "sbin", "lib/modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(_one(busybox, "**/bin/busybox"), tree / "bin/busybox")
    _take_modules(_modules_of(kernel) / release, tree / "lib/modules" / release)
    _pick_boot_modules(tree / "lib/modules" / release, folder / "boot-modules")
    _take_from_system(folder, system, tree)
    shutil.rmtree(kernel)
    shutil.rmtree(busybox)


def _unpack(package: Path, into: Path) -> None:
    run_blocking(["dpkg-deb", "--extract", str(package), str(into)], timeout_s=300)


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise FileNotFoundError(f"{folder}: expected one {pattern}, found {len(found)}")
    return found[0]


def _modules_of(package: Path) -> Path:
    return next(path for path in (package / "lib/modules", package / "usr/lib/modules") if path.is_dir())


# -- the kernel's modules ----------------------------------------------------------------------------------------------

def _take_modules(source: Path, target: Path) -> None:
    """The whole tree, so that a guest's modprobe finds what fits the kernel it really runs on."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("build", "source"))
    run_blocking(["depmod", "--basedir", str(target.parents[2]), target.name], timeout_s=120)


def _pick_boot_modules(modules: Path, into: Path) -> None:
    """Uncompressed and numbered in the order in which they are inserted."""
    into.mkdir()
    built_in = (modules / "modules.builtin").read_text()
    for number, name in enumerate(BOOT_MODULES):
        found = sorted(modules.glob(f"kernel/**/{name}.ko*"))
        if found:
            (into / f"{number:02}-{name}.ko").write_bytes(_plain(found[0]))
        elif f"/{name}.ko" not in built_in:
            raise FileNotFoundError(f"the kernel has no module {name}")


def _plain(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


# -- an interpreter of our own -----------------------------------------------------------------------------------------

def _take_from_system(folder: Path, system: Path, tree: Path) -> None:
    root = folder / "system"
    root.mkdir()
    rootfs.extract(system / ARCHIVE, root)
    library = _one(root / "usr/lib", "python3.*")
    shutil.copy(root / "usr/bin" / library.name, tree / "bin/python3")
    shutil.copytree(library, tree / "lib" / library.name, ignore=_LIBRARY_LEFT_OUT)
    extensions = (path.relative_to(tree / "lib") for path in tree.glob("lib/python3.*/lib-dynload/*.so"))
    programs = [Path("usr/bin") / library.name, *(Path("usr/lib") / path for path in extensions)]
    _take_libraries(root, tree / "lib", programs)
    shutil.rmtree(root)


def _take_libraries(root: Path, into: Path, programs: list[Path]) -> None:
    """Every shared library the programs name, and the loader under one fixed name."""
    listed = run_blocking(["chroot", str(root), "ldd", *(f"/{path}" for path in programs)], timeout_s=120, ok=(0, 1))
    for match in _LIBRARY_LINE.finditer(listed.text):
        library = root / (match[1] or match[2]).lstrip("/")
        name = "ld.so" if library.name.startswith("ld-linux") else library.name
        shutil.copy(_inside(root, library), into / name)
    shutil.copy(into / "ld.so", into / "ld-linux-x86-64.so.2")


def _inside(root: Path, path: Path) -> Path:
    """Follows links as they are meant inside of the tree, where absolute ones begin at its own root."""
    for _ in range(20):
        if not path.is_symlink():
            return path
        target = path.readlink()
        path = root / str(target).lstrip("/") if target.is_absolute() else path.parent / target
    raise OSError(f"{path}: too many links")
