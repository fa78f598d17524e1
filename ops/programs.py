"""Runs one program to its end for a set-up step: output kept in a log, its tail shown when it fails.

Called by the set-up steps and by `down`. The processes that stay are the supervisor's.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from ops.instance import ROOT, Instance
from ops.say import SetupFailed

TAIL_LINES = 20


def run(argv: list[str], *, log: Path, env: Mapping[str, str], cwd: Path = ROOT,
        on_line: Callable[[str], None] = lambda text: None) -> str:
    """Both outputs as text. Raises SetupFailed with the tail and the log's place."""
    kept: list[str] = []
    with log.open("a") as out:
        out.write(f"$ {' '.join(argv)}\n")
        with subprocess.Popen(argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace") as process:
            assert process.stdout is not None
            for text in process.stdout:
                out.write(text)
                kept.append(text)
                on_line(text)
    if process.returncode:
        tail = "".join(deque(kept, TAIL_LINES))
        raise SetupFailed(f"{Path(argv[0]).name} {' '.join(argv[1:4])} ended with {process.returncode}:\n"
                          f"{tail}(all of it: {log})")
    return "".join(kept)


def manage(instance: Instance, *arguments: str, on_line: Callable[[str], None] = lambda text: None) -> str:
    """One `manage.py` command to its end."""
    return run([sys.executable, "manage.py", *arguments], log=instance.log / "setup.log",
               env=instance.environment(), on_line=on_line)


def manage_stdout(instance: Instance, *arguments: str) -> tuple[int, str]:
    """A `manage.py` command whose stdout is the answer; its stderr goes through. Exit code and stdout."""
    done = subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=instance.environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def manage_answer(instance: Instance, *arguments: str) -> tuple[int, str, str]:
    """The same where nobody wants to read a traceback: exit code, stdout, and the last line of what it complained."""
    done = subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=instance.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    complaint = done.stderr.strip().splitlines()
    return done.returncode, done.stdout, complaint[-1] if complaint else ""
