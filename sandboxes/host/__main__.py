"""`python -m sandboxes.host --state DIR --socket PATH --images DIR [--driver auto|qemu|fake]
[--egress PATH]`: one hostd.

Started by `berth up` or an init system. SIGTERM ends it and leaves every machine running.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import resource
import signal
import sys
from pathlib import Path

import uvloop
from aiohttp import web

from sandboxes.drivers import select
from sandboxes.drivers.base import Driver
from sandboxes.host import log
from sandboxes.host.app import build

SHUTDOWN_S = 2.0


def main() -> int:
    options = _options(sys.argv[1:])
    os.umask(0o077)
    _many_files()
    state: Path = options.state
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state / "hostd.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.line("hostd.already_there", state=str(state))
            return 1
        driver, images = _driver(options)
        uvloop.run(_serve(state, options, driver, images))
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandboxes.host", description="One hostd: this host's machines.")
    parser.add_argument("--state", type=Path, required=True, help="folder of machines, records and facts")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to serve on (mode 0600)")
    parser.add_argument("--images", type=Path, required=True, help="cache of built guest images")
    parser.add_argument("--driver", choices=("auto", "qemu", "fake"), default="auto")
    parser.add_argument("--egress", type=Path, help="egressd's Unix socket; without it machines reach nothing")
    return parser.parse_args(arguments)


def _many_files() -> None:
    """Each running exec holds up to four files, each machine two sockets."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _driver(options: argparse.Namespace) -> tuple[Driver, dict[str, str]]:
    if options.driver == "fake":
        return select("fake", options.state, None), {"default": "fake"}
    from sandboxes.guest.image.build import ensure
    image = ensure(options.images, lambda said: log.line("image", said=said))
    return select(options.driver, options.state, image), {"default": image.fingerprint}


async def _serve(state: Path, options: argparse.Namespace, driver: Driver, images: dict[str, str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(build(state, driver, images, options.egress), access_log=None, shutdown_timeout=SHUTDOWN_S,
                           handler_cancellation=False)
    await runner.setup()
    socket: Path = options.socket
    socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    await web.UnixSite(runner, str(socket)).start()
    socket.chmod(0o600)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
