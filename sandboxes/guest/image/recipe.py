"""What goes into the image, and the hashes that name it. Reads the host's release and our own sources, nothing else."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

PACKAGES = (
    "bash", "bash-completion", "ca-certificates", "curl", "e2fsprogs", "file", "git", "iproute2", "iputils-ping", "jq",
    "kmod", "less", "nano", "netbase", "openssh-client", "patch", "procps", "psmisc", "python3", "python3-pip",
    "python3-venv", "ripgrep", "sudo", "tmux", "tzdata", "unzip", "vim-tiny", "xz-utils", "zip",
)
#: Fetched but not installed: they become the boot parts.
BUSYBOX_PACKAGE = "busybox-static"
KERNEL_PACKAGE = "linux-image-cloud-amd64"

SUITES = ("bookworm", "trixie")
#: Raise when a step of the build changes in a way that its inputs do not show.
SYSTEM_EDITION = "1"
ROOT_EDITION = "1"
BOOT_EDITION = "1"

GUEST = Path(__file__).resolve().parents[1]
PACKAGE_ROOT = GUEST.parents[1]


class UnsupportedHost(Exception):
    """The host's release is none the image can be built from."""


def host_suite() -> str:
    """The code name of the host's Debian release."""
    release = platform.freedesktop_os_release()
    suite = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian" or suite not in SUITES:
        raise UnsupportedHost(f"the guest image is built on Debian {' or '.join(SUITES)}, this host is "
                              f"{release.get('PRETTY_NAME', 'unknown')}")
    return suite


def agent_sources() -> list[Path]:
    """The files of ours that the tools disk carries, below PACKAGE_ROOT."""
    top = GUEST.parent
    return [top / "__init__.py", top / "errors.py", GUEST / "__init__.py", GUEST / "protocol.py",
            *sorted((GUEST / "agent").glob("*.py"))]


def digest(*parts: str | bytes | Path) -> str:
    """A short hash of texts and of files (name and content)."""
    hashed = hashlib.sha256()
    for part in parts:
        piece = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        name = part.name.encode() if isinstance(part, Path) else b""
        hashed.update(len(name).to_bytes(4, "big") + name + len(piece).to_bytes(8, "big") + piece)
    return hashed.hexdigest()[:16]


def system_key(suite: str) -> str:
    return digest(SYSTEM_EDITION, suite, *PACKAGES, BUSYBOX_PACKAGE, KERNEL_PACKAGE, _beside("system.py"))


def root_key(suite: str) -> str:
    return digest(ROOT_EDITION, system_key(suite), _beside("rootfs.py"))


def parts_key(suite: str) -> str:
    return digest(BOOT_EDITION, system_key(suite), _beside("parts.py"), _beside("shape.py"))


def boot_key(suite: str) -> str:
    return digest(parts_key(suite), _beside("boot.py"), _beside("cpio.py"), *agent_sources())


def _beside(name: str) -> Path:
    """A step's own source: a changed step is another recipe."""
    return Path(__file__).with_name(name)
