"""Where this instance keeps its state, and what the environment says about it.

Called by settings alone. Calls the file system once, at import of the settings. Never knows Django.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import unquote, urlsplit

DEFAULT_DATA = "/var/lib/berth"


def data_folder() -> Path:
    """All state lives below this folder (`BERTH_DATA`)."""
    return Path(os.environ.get("BERTH_DATA") or DEFAULT_DATA).absolute()


def secret_key(folder: Path) -> str:
    """The signing key of this instance: made at first use, 0600, never in the environment or in the tree."""
    path = folder / "secret_key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return _make_secret(path)


def _make_secret(path: Path) -> str:
    """Two processes may start at once: the file appears whole, and the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(64))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
    return path.read_text().strip()


def database(folder: Path) -> dict[str, object]:
    """SQLite beside everything else, or PostgreSQL where `BERTH_DATABASE_URL` names one."""
    url = os.environ.get("BERTH_DATABASE_URL", "")
    return _postgresql(url) if url else _sqlite(folder)


def _sqlite(folder: Path) -> dict[str, object]:
    """WAL so that readers never wait; IMMEDIATE so that a transaction that will write waits its turn at its
    start, where waiting is safe, and is never refused in its middle."""
    _keep_private(folder / "db.sqlite3")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(folder / "db.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
        },
    }


def _keep_private(path: Path) -> None:
    """Sessions, hashes and variables are in it, and SQLite would make it for everybody to read (its journals take
    the mode that it has)."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _postgresql(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError("BERTH_DATABASE_URL must start with postgresql://")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


def redis_url(folder: Path) -> str:
    """The private Redis of this instance over its Unix socket, or what `BERTH_REDIS_URL` names."""
    return os.environ.get("BERTH_REDIS_URL") or f"unix://{folder / 'run' / 'redis.sock'}"


def broker_url(url: str) -> str:
    """Celery spells a Unix socket in its own way."""
    return url.replace("unix://", "redis+socket://", 1) if url.startswith("unix://") else url


def words(name: str) -> list[str]:
    """A comma-separated list in the environment."""
    return [word.strip() for word in os.environ.get(name, "").split(",") if word.strip()]


def whole(name: str, default: int) -> int:
    """A whole number in the environment."""
    return int(os.environ.get(name) or default)
