"""A private redis-server on a Unix socket, for tests that need a real one. Stopped by its own process handle."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path


def start_redis(folder: Path) -> subprocess.Popen[bytes]:
    """Begins to serve `folder`/redis.sock; keeps nothing on disk."""
    return subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(folder / "redis.sock"), "--save", "", "--appendonly", "no",
         "--dir", str(folder), "--daemonize", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.asynccontextmanager
async def private_redis() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="berth-redis-") as name:
        folder = Path(name)
        process = start_redis(folder)
        try:
            async with asyncio.timeout(60):
                while not (folder / "redis.sock").exists():
                    assert process.poll() is None, "redis-server ended"
                    await asyncio.sleep(0.01)
            yield f"unix://{folder / 'redis.sock'}"
        finally:
            process.terminate()
            process.wait(60)
