"""`./berth bench [NAME] [--json]`: figures, each beside a floor or a peer measured in the same run.

Called by the machine room's command line; one file per bench, each a function that takes a `Stage` (a private
instance in a throw-away folder, over the shared cache) and returns `Figure`s. A ratio says more than a time:
the machine under it may be any.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module

from ops.bench.figure import Figure
from ops.bench.stage import Stage, staged
from ops.say import SetupFailed, line

Bench = Callable[[Stage], list[Figure]]

#: name -> driver of its stage. Benches of one driver share one instance.
BENCHES = {"create": "auto", "start": "auto", "exec": "auto", "terminal": "auto", "memory": "auto",
           "wake": "auto", "standby": "auto", "checkpoint": "auto", "restore": "auto", "fork": "auto",
           "files": "auto", "preview": "auto", "page": "auto", "peers": "fake", "network": "fake",
           "exec_rate": "fake", "exec_crowd": "fake", "stream": "fake", "list": "fake", "reconcile": "fake"}
#: `exec` is a word of Python's own.
MODULES = {"exec": "round_trip"}


def bench(rest: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="berth bench")
    parser.add_argument("name", nargs="?", choices=list(BENCHES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(rest)
    figures, failed = measure([options.name] if options.name else list(BENCHES))
    if options.json:
        print(json.dumps([{**asdict(figure), "ratio": figure.ratio} for figure in figures], indent=2))
    else:
        print("\n".join(figure.as_text() for figure in figures))
    return 1 if failed else 0


def measure(names: list[str]) -> tuple[list[Figure], list[str]]:
    figures: list[Figure] = []
    failed: list[str] = []
    for driver in dict.fromkeys(BENCHES[name] for name in names):
        with staged(driver) as stage:
            for name in (name for name in names if BENCHES[name] == driver):
                line(f"bench {name}")
                try:
                    figures += load(name)(stage)
                except (SetupFailed, OSError, RuntimeError) as error:
                    line(f"✗ {name}: {error}")
                    failed.append(name)
    return figures, failed


def load(name: str) -> Bench:
    run: Bench = import_module(f"ops.bench.{MODULES.get(name, name)}").run
    return run
