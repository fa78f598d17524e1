"""Where the server is and with what token: arguments, then environment, then the file that `berth-cli login` wrote.

Called by `client` and the CLI. The file is its owner's alone; one that others may read is refused, not read. A token
from the file goes to the file's own address and to no other.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from berth_client.problems import BadConfig

HINT = "Run `berth-cli login`, or set BERTH_URL and BERTH_TOKEN."


@dataclass(frozen=True)
class Access:
    url: str
    token: str = field(repr=False)


def resolve(url: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ) -> Access:
    url = url or environment.get("BERTH_URL") or None
    token = token or environment.get("BERTH_TOKEN") or None
    if url is None or token is None:
        kept = load(place(environment))
        if url is None:
            url = kept.url if kept else None
        if token is None and kept is not None and url is not None and normalized(url) == kept.url:
            token = kept.token
    if url is None:
        raise BadConfig(f"No address of a Berth is known. {HINT}")
    if token is None:
        raise BadConfig(f"No token for {normalized(url)} is known. {HINT}")
    return Access(normalized(url), checked(token))


def normalized(url: str) -> str:
    """http(s)://host[:port][/prefix] without a slash at the end; a port alone is not an address."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadConfig(f"Not an address: {url!r}. It looks like http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise BadConfig("An address holds no user and no password; the token is given apart.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def checked(token: str) -> str:
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadConfig("That is no token: it has no spaces and is ASCII.")
    return token


def place(environment: Mapping[str, str] = os.environ) -> Path:
    if said := environment.get("BERTH_CONFIG"):
        return Path(said)
    home = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "berth" / "client.json"


def load(path: Path) -> Access | None:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise BadConfig(f"{path} may be read by others; chmod 600 it (and think about a new token).")
            value = json.load(file)
        return Access(normalized(value["url"]), checked(value["token"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadConfig(f"{path} cannot be read: {type(error).__name__}") from error


def save(path: Path, access: Access) -> None:
    """Whole or not at all, and from its first byte nobody else's to read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=".client-")  # 0600 by itself
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump({"url": access.url, "token": access.token}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def forget(path: Path) -> bool:
    """True when there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
