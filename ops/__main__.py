"""The commands behind `./berth`. Called by the entry script; each command is one module that does the work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from ops.say import SetupFailed, line

Command = Callable[[list[str]], int]


def main(argv: list[str]) -> int:
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    command = COMMANDS.get(name)
    if command is None:
        line(f"unknown command: {name or '(none)'}; one of {', '.join(COMMANDS)}")
        return 2
    try:
        return command(rest)
    except SetupFailed as failed:
        line(f"berth: {failed}")
        return 1
    except KeyboardInterrupt:
        line("interrupted; the next run goes on where this one stopped")
        return 130


def _up(rest: list[str]) -> int:
    from ops.up import up

    options = _address_parser("up", detach=True).parse_args(rest)
    return up(options.host, options.port, options.detach)


def _serve(rest: list[str]) -> int:
    """The detached half of `up`; its parent did the set-up and handed over the instance's lock."""
    from ops.instance import from_environment
    from ops.up import serve

    options = _address_parser("serve", detach=False).parse_args(rest)
    return serve(from_environment(options.host, options.port), detached=True)


def _address_parser(name: str, detach: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"berth {name}")
    parser.add_argument("--host", help="the address the public port listens on")
    parser.add_argument("--port", type=_port)
    if detach:
        parser.add_argument("--detach", action="store_true", help="return once /healthz is 200")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError("a port is 1 to 65535")
    return port


def _down(rest: list[str]) -> int:
    from ops.down import down

    argparse.ArgumentParser(prog="berth down").parse_args(rest)
    return down()


def _status(rest: list[str]) -> int:
    from ops.status import status

    return status(_json_option("status", rest))


def _doctor(rest: list[str]) -> int:
    from ops.doctor import doctor

    return doctor(_json_option("doctor", rest))


def _json_option(name: str, rest: list[str]) -> bool:
    parser = argparse.ArgumentParser(prog=f"berth {name}")
    parser.add_argument("--json", action="store_true")
    return bool(parser.parse_args(rest).json)


def _token(rest: list[str]) -> int:
    from ops.token import token

    return token(rest)


def _test(rest: list[str]) -> int:
    from ops.checks import test

    return test(rest)


def _bench(rest: list[str]) -> int:
    from ops.bench import bench

    return bench(rest)


COMMANDS: dict[str, Command] = {
    "up": _up, "down": _down, "status": _status, "token": _token, "doctor": _doctor, "test": _test,
    "bench": _bench, "serve": _serve,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
