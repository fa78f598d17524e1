"""One instance of Berth: its folders, its address, and the environment its processes get.

Read by every command of the machine room. Two instances differ in BERTH_DATA and port, in nothing else.
Knows paths only: starts nothing, opens nothing but its own small address file.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
#: A Unix socket's path may have 107 bytes; the longest name below run/ needs the rest.
DATA_PATH_LIMIT = 80


@dataclass(frozen=True)
class Instance:
    data: Path
    cache: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    #: Which driver hostd takes; "fake" runs processes instead of machines (benches, development).
    driver: str = "auto"

    @property
    def run(self) -> Path:
        return self.data / "run"

    @property
    def log(self) -> Path:
        return self.data / "log"

    @property
    def images(self) -> Path:
        return self.cache / "images"

    @property
    def host_state(self) -> Path:
        """hostd's own folder: machines, templates, spools."""
        return self.data / "host"

    @property
    def redis_socket(self) -> Path:
        return self.run / "redis.sock"

    @property
    def hostd_socket(self) -> Path:
        return self.run / "hostd.sock"

    @property
    def egress_socket(self) -> Path:
        return self.run / "egress.sock"

    @property
    def daphne_socket(self) -> Path:
        return self.run / "daphne.sock"

    @property
    def url(self) -> str:
        shown = "localhost" if self.host in ("127.0.0.1", "0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{shown}:{self.port}"

    @property
    def connect_host(self) -> str:
        """Where a probe on this machine reaches the public port."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104

    def environment(self) -> dict[str, str]:
        """What every process of this instance is started with."""
        return {
            **os.environ,
            "BERTH_DATA": str(self.data),
            "BERTH_CACHE": str(self.cache),
            "BERTH_HOST": self.host,
            "BERTH_PORT": str(self.port),
            "BERTH_DRIVER": self.driver,
            "DJANGO_SETTINGS_MODULE": "workspaces.config.settings",
            "PYTHONUNBUFFERED": "1",
        }

    def make_folders(self) -> None:
        """State is the owner's alone: the database, the secret key and the sockets live here. Bodies of machines get
        descriptors, so their users need no way through."""
        for folder in (self.data, self.run, self.log):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
        self.cache.mkdir(parents=True, exist_ok=True)

    def remember_address(self) -> None:
        aside = self.run / "address.json.new"
        aside.write_text(json.dumps({"host": self.host, "port": self.port}))
        aside.rename(self.run / "address.json")


def from_environment(host: str | None = None, port: int | None = None) -> Instance:
    """The instance BERTH_DATA names; without arguments at the address its last `up` had."""
    data = Path(os.environ.get("BERTH_DATA", "/var/lib/berth")).absolute()
    cache = Path(os.environ.get("BERTH_CACHE", data / "cache")).absolute()
    last = _last_address(data)
    return Instance(data, cache, host or str(last.get("host", DEFAULT_HOST)),
                    port or int(last.get("port", DEFAULT_PORT)), os.environ.get("BERTH_DRIVER", "auto"))


def _last_address(data: Path) -> dict[str, str | int]:
    try:
        known = json.loads((data / "run" / "address.json").read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
