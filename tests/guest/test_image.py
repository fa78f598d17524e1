"""What the image is made of, as far as it needs no machine: recipes, the initramfs' format, the agent alone."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.guest.image import build, cpio, recipe, rootfs, shape
from sandboxes.guest.image.system import sources

SUITE = "bookworm"


def test_the_initramfs_is_what_cpio_reads(tmp_path: Path):
    data = cpio.archive([cpio.folder("a"), cpio.file("a/run", b"#!x", 0o755), cpio.file("a/empty", b"", 0o600),
                         cpio.character_device("console", 5, 1)])
    subprocess.run(["cpio", "--extract", "--quiet", "--no-absolute-filenames"], input=data, cwd=tmp_path, check=True)
    assert (tmp_path / "a/run").read_bytes() == b"#!x" and (tmp_path / "a/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a/empty").stat().st_size == 0
    device = (tmp_path / "console").stat()
    assert stat.S_ISCHR(device.st_mode) and device.st_rdev == os.makedev(5, 1)
    assert gzip.compress(data, mtime=0) == gzip.compress(
        cpio.archive([cpio.folder("a"), cpio.file("a/run", b"#!x", 0o755), cpio.file("a/empty", b"", 0o600),
                      cpio.character_device("console", 5, 1)]), mtime=0)


def test_a_changed_agent_makes_another_tools_disk_and_leaves_root_disks_alone(tmp_path: Path, monkeypatch):
    changed = tmp_path / "loop.py"
    changed.write_text("another agent")
    before = (recipe.root_key(SUITE), recipe.parts_key(SUITE), recipe.boot_key(SUITE))
    monkeypatch.setattr(recipe, "agent_sources", lambda: [changed])
    after = (recipe.root_key(SUITE), recipe.parts_key(SUITE), recipe.boot_key(SUITE))
    assert after[:2] == before[:2] and after[2] != before[2]


def test_another_release_or_package_list_makes_everything_anew(monkeypatch):
    before = {recipe.root_key(SUITE), recipe.boot_key(SUITE)}
    assert not before & {recipe.root_key("trixie"), recipe.boot_key("trixie")}
    monkeypatch.setattr(recipe, "PACKAGES", (*recipe.PACKAGES, "gcc"))
    assert not before & {recipe.root_key(SUITE), recipe.boot_key(SUITE)}


def test_only_the_releases_own_sources_are_for_guests():
    entries = sources(recipe.host_suite())
    assert entries and all(entry.split()[2].startswith(recipe.host_suite()) for entry in entries)


def test_a_host_the_image_cannot_be_built_on_says_so(monkeypatch):
    monkeypatch.setattr(recipe.platform, "freedesktop_os_release",
                        lambda: {"ID": "other", "VERSION_CODENAME": "x", "PRETTY_NAME": "Other 1"})
    with pytest.raises(recipe.UnsupportedHost, match="Other 1"):
        recipe.host_suite()


def test_the_agent_runs_from_the_files_the_tools_disk_carries_and_nothing_else(tmp_path: Path):
    for source in recipe.agent_sources():
        target = tmp_path / source.relative_to(recipe.PACKAGE_ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    script = (f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
              "import sandboxes.guest.agent.__main__ as main, sandboxes.guest.agent.agent\n"
              f"assert main.__file__.startswith({str(tmp_path)!r})\n"
              "heavy = {'asyncio', 'inspect', 'dataclasses', 'logging', 'subprocess', 'argparse', 'tempfile'}\n"
              "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n")
    subprocess.run([sys.executable, "-I", "-S", "-c", script], check=True, cwd=tmp_path)


def test_paths_are_set_by_the_agent_alone(tmp_path: Path):
    profile = tmp_path / "profile"
    profile.write_text('# top\nif [ "$(id -u)" -eq 0 ]; then\n  PATH="/a"\nelse\n  PATH="/b"\nfi\nexport PATH\n\n'
                       'if [ "${PS1-}" ]; then\n  if [ "$(id -u)" -eq 0 ]; then\n    PS1="# "\n  fi\nfi\n'
                       'if [ -d "$HOME/bin" ] ; then\n    PATH="$HOME/bin:$PATH"\nfi')
    rootfs._keep_path(profile)
    kept = profile.read_text()
    assert "PATH" not in kept and "# top" in kept and 'if [ "${PS1-}" ]; then' in kept
    subprocess.run(["sh", "-n", str(profile)], check=True)


def test_a_build_that_was_cut_off_leaves_nothing_that_looks_built(tmp_path: Path):
    target = tmp_path / "root-1"
    said: list[str] = []

    def broken(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError("the disk is full")
    with pytest.raises(OSError, match="full"):
        build._make(target, broken, "root", said.append)
    assert list(tmp_path.iterdir()) == [] and said == ["root"]
    build._make(target, lambda folder: (folder / "whole").write_text("whole") and None, "root", said.append)
    build._make(target, broken, "root", said.append)
    assert said == ["root", "root"] and len(build._content(target)) == 16


def test_emulation_gets_its_words_and_the_shape_its_names():
    assert shape.tcg_words(2_596_145) == ("tsc_early_khz=2596145", "mitigations=off")
    assert shape.BOOT_MODULES.index("virtio_ring") < shape.BOOT_MODULES.index("virtio_blk")
