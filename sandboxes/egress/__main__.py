"""`python -m sandboxes.egress --socket PATH [--resolver ADDRESS[:PORT]]`: egressd, one a host.

Started by `berth up` or an init system, as root, which it is no more once its socket is bound. hostd finds it by that
socket. SIGTERM ends it, and every connection with it; machines are then refused everything until it is back.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import uvloop

from sandboxes.egress.daemon import privileges
from sandboxes.egress.daemon.asks import WAIT_S
from sandboxes.egress.daemon.control import Control
from sandboxes.egress.daemon.names import LEAST_S
from sandboxes.egress.daemon.upstream import Upstream, server_of


def main() -> int:
    options = _options(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    os.umask(0o077)
    listener, upstream = _listener(options.socket), Upstream(options.resolver)
    privileges.drop(options.socket)
    uvloop.run(_serve(listener, upstream, options))
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandboxes.egress", description="egressd: the way out of machines.")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket that hostd connects to (mode 0600)")
    parser.add_argument("--resolver", type=server_of, action="append", metavar="ADDRESS[:PORT]",
                        help="where names are asked for; may be repeated (default: as /etc/resolv.conf says)")
    parser.add_argument("--ask-wait-s", type=float, default=WAIT_S, help="how long a connection waits for a member")
    parser.add_argument("--usable-s", type=float, default=LEAST_S,
                        help="how long an address may be used for its name at least before it is asked for again")
    return parser.parse_args(arguments)


def _listener(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(8)
    return listener


async def _serve(listener: socket.socket, upstream: Upstream, options: argparse.Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    control = Control(upstream, options.ask_wait_s, options.usable_s)
    control.serve(listener)
    logging.getLogger("berth.egress").info("egressd is ready")
    await stop.wait()
    control.close()


if __name__ == "__main__":
    sys.exit(main())
