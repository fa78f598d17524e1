"""`python -m workspaces.gateway --host H --port P`: the gateway's own process.

Started by `berth up` (or a service manager). Django is set up first, for selectors and services alone.
"""

from __future__ import annotations

import argparse
import os


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workspaces.gateway")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspaces.config.settings")

    import django

    django.setup()
    from workspaces.gateway.app import application
    from workspaces.gateway.config import from_environment
    from workspaces.gateway.server import server

    config = from_environment()
    server(config, application(config), given.host, given.port).run()


if __name__ == "__main__":
    main()
