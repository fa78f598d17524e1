"""The Debian system as one tar, and the kernel and busybox packages: mmdebstrap over the host's own apt sources.

Called by `build.py`. The one step that needs the network and minutes. Users, names and boot parts are other files'.
"""

from __future__ import annotations

from pathlib import Path

from sandboxes.guest.image.recipe import BUSYBOX_PACKAGE, KERNEL_PACKAGE, PACKAGES
from sandboxes.linux.processes import run_blocking

DEADLINE_S = 3600.0
ARCHIVE = "system.tar"
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
_KEPT = "/usr/share/doc/*/copyright"
#: The kernel's package depends on the one that has the files; busybox is one itself.
_FETCH = f"""set -eu
mkdir -p /berth-packages && cd /berth-packages
kernel=$(apt-cache depends {KERNEL_PACKAGE} | sed -n 's/.*Depends: \\(linux-image-[^ ]*\\)/\\1/p' | head -n 1)
apt-get -o APT::Sandbox::User=root download {BUSYBOX_PACKAGE} "$kernel"
"""


def build(folder: Path, suite: str) -> None:
    """Fills a folder with `system.tar` and the two packages. Raises ProcessFailed with apt's own complaint."""
    fetch = folder / "fetch.sh"
    fetch.write_text(_FETCH)
    run_blocking([
        "mmdebstrap", "--variant=minbase", "--mode=root", "--format=tar", "--quiet",
        "--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Retries 3",
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT), f"--dpkgopt=path-include={_KEPT}",
        f"--include={','.join(PACKAGES)}",
        f"--customize-hook=upload {fetch} /berth-fetch.sh", '--customize-hook=chroot "$1" sh /berth-fetch.sh',
        f"--customize-hook=sync-out /berth-packages {folder}",
        '--customize-hook=rm -rf "$1/berth-packages" "$1/berth-fetch.sh"',
        suite, str(folder / ARCHIVE), *sources(suite),
    ], timeout_s=DEADLINE_S)
    fetch.unlink()


def sources(suite: str) -> list[str]:
    """The host's apt sources of this release, as one-line entries; what else is configured is not for guests."""
    wanted = (suite, f"{suite}-updates", f"{suite}-security")
    listed = run_blocking(["apt-get", "indextargets", "--format", "$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)"])
    entries: list[str] = []
    for line in listed.text.splitlines():
        words = line.split()
        if len(words) == 4 and words[0] == "Packages" and words[2] in wanted:
            entry = f"deb {words[1]} {words[2]} {words[3]}"
            if entry not in entries:
                entries.append(entry)
    if not any(f" {suite} " in entry for entry in entries):
        raise LookupError(f"apt has no source for {suite}; add the release's main archive and run apt-get update")
    return entries
