"""`python -m sandboxes.guest.image --cache DIR` builds the guest image and prints where it is. Called by `berth up`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sandboxes.guest.image.build import ensure
from sandboxes.guest.image.recipe import UnsupportedHost
from sandboxes.linux.processes import ProcessFailed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandboxes.guest.image", description="Builds the guest image.")
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps built images")
    options = parser.parse_args(arguments)
    try:
        image = ensure(options.cache, lambda said: print(said, flush=True))
    except (ProcessFailed, UnsupportedHost, LookupError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"guest image {image.fingerprint} in {image.tools_disk.parent.parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
