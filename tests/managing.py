"""Django's commands for a stack, from one process that has Django loaded and forks for each: `Stack.manage`.

Loading Django costs two seconds of processor, a fork costs nothing; the command that runs is the product's own. The
parent opens no database, so a child shares no connection with another. Run as a program: argv in JSON by line, answers
in JSON by line; it ends with its input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Managing:
    """A stack's hand; one command at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", "tests.managing"], cwd=ROOT, env=environment, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._one = threading.Lock()

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        assert self._process.stdin
        assert self._process.stdout
        with self._one:
            print(json.dumps(arguments), file=self._process.stdin, flush=True)
            answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["out"], answer["err"]

    def end(self) -> None:
        self._process.communicate(timeout=30)


def serve() -> None:
    import django

    django.setup()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def run(arguments: list[str]) -> dict[str, object]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        pid = os.fork()
        if pid == 0:
            become(arguments, out.fileno(), err.fileno())
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        return {"code": os.waitstatus_to_exitcode(status), "out": out.read(), "err": err.read()}


def become(arguments: list[str], out: int, err: int) -> None:
    """The command, in a process of its own, which never returns here."""
    from django.core.management import execute_from_command_line

    code = 1
    try:
        for kept, place in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(kept, place)
        execute_from_command_line(["manage.py", *arguments])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
