"""`./berth test`: every check that CI runs, each stage with its time, the tests' count last.

With pytest arguments: pytest alone, with those. A stage that fails does not hide the others; the exit code tells.
The tests are two runs at once: those that drive a browser one after the other (Playwright's synchronous hands leave an
event loop running in their process), all others side by side, a whole file per worker, since most wait for a machine.
Layout is by hand (tables of comments, aligned maps), so `ruff check` judges the code and no formatter its shape.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

from ops import frontend, prepare, say
from ops.instance import ROOT, Instance, from_environment
from ops.say import SetupFailed, line

PYTHON = sys.executable
#: All that drives a browser, and nothing else.
BROWSER = "tests/browser"
TYPED = ["ops", "sandboxes", "workspaces", "manage.py", "clients/python/berth_client"]


def test(arguments: list[str]) -> int:
    """Checks never touch the state of an instance: their own folder, the caller's cache."""
    scratch = Path(tempfile.mkdtemp(prefix="berth-check-"))
    instance = replace(from_environment(), data=scratch)
    instance.make_folders()
    try:
        if [a for a in arguments if a != "--soak"]:
            return pytest(instance, arguments)
        failed = run_stages(instance)
        code = pytest_in_two(instance, arguments)
        if failed:
            line(f"failed before pytest: {', '.join(failed)}")
        return code or (1 if failed else 0)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


Stages = list[tuple[str, Callable[[], None]]]


def front_end(instance: Instance) -> Stages:
    return [
        ("front end: packages", lambda: frontend.ensure_packages(instance)),
        ("front end: types and build", lambda: built(instance)),
        ("front end: unit tests", lambda: program(instance, *frontend.NPM, "test", cwd=frontend.HOME)),
    ]


def python(instance: Instance) -> Stages:
    """Cheap ones first."""
    return [
        ("ruff", lambda: program(instance, PYTHON, "-m", "ruff", "check", "--no-cache", ".")),
        ("import contracts", lambda: program(instance, str(Path(PYTHON).parent / "lint-imports"), "--no-cache")),
        ("migrations match models", lambda: program(instance, PYTHON, "manage.py", "makemigrations", "--check",
                                                    "--dry-run")),
        # Once, not by each of the thousand programs that the tests start: not all of those may write here.
        ("bytecode", lambda: program(instance, PYTHON, "-m", "compileall", "-q", *TYPED)),
        ("mypy", lambda: program(instance, PYTHON, "-m", "mypy", "--cache-dir",
                                 str(instance.cache / "mypy"), *TYPED)),
    ]


def run_stages(instance: Instance) -> list[str]:
    """The names of those that failed. Three lanes: the guest image mostly waits for downloads."""
    lanes = [[("guest image", lambda: prepare.guest_image(instance))], front_end(instance), python(instance)]
    with ThreadPoolExecutor(len(lanes)) as beside:
        return [name for failed in beside.map(run_lane, lanes) for name in failed]


def run_lane(stages: Stages) -> list[str]:
    return [name for name, stage in stages if not timed(name, stage)]


def built(instance: Instance) -> None:
    """`npm run build` checks types before it builds; its stamp says that these very sources passed."""
    frontend.ensure_built(instance)


def timed(name: str, stage: Callable[[], None]) -> bool:
    started = time.monotonic()
    try:
        stage()
    except SetupFailed as failed:
        line(str(failed))
        line(f"✗ {name}  {time.monotonic() - started:.1f} s")
        return False
    line(f"✓ {name}  {time.monotonic() - started:.1f} s")
    return True


def program(instance: Instance, *argv: str, cwd: Path = ROOT) -> None:
    """Quiet when it passes, all of its output when not."""
    done = subprocess.run(argv, cwd=cwd, env=frontend.environment(instance), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SetupFailed(done.stdout)


def pytest_in_two(instance: Instance, arguments: list[str]) -> int:
    """Both runs always happen; the last line counts what both executed."""
    reports = [instance.data / "side-by-side.xml", instance.data / "browser.xml"]
    # More than there are processors takes longer: emulated machines stand in each other's way.
    workers = str(max(2, min(4, os.cpu_count() or 1)))
    said = instance.data / "browser.log"
    with ThreadPoolExecutor(1) as beside, said.open("wb") as output:
        browser = beside.submit(pytest, instance, [*arguments, BROWSER, f"--junitxml={reports[1]}"], output)
        code = pytest(instance, [*arguments, f"--ignore={BROWSER}", "-n", workers, "--dist", "loadfile",
                                 "--no-loadscope-reorder", f"--junitxml={reports[0]}"])
        code = browser.result() or code
    line(said.read_text(errors="replace"))
    passed, failed = counted(reports)
    print(f"{passed} passed, {failed} failed", flush=True)
    return code


def counted(reports: list[Path]) -> tuple[int, int]:
    """(passed, failed) of pytest's own reports; a run that left no report counts as one failure."""
    passed = failed = 0
    for report in reports:
        if not report.exists():
            failed += 1
            continue
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):  # noqa: S314  (pytest wrote it)
            wrong = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            failed += wrong
            passed += int(suite.get("tests", 0)) - wrong - int(suite.get("skipped", 0))
    return passed, failed


def pytest(instance: Instance, arguments: list[str], output: BinaryIO | None = None) -> int:
    """pytest's exit code; what it says goes to `output`, or to where ours goes."""
    env = {**os.environ, "BERTH_CACHE": str(instance.cache)}
    say.line("pytest")
    return subprocess.run([PYTHON, "-m", "pytest", *arguments], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                          stdout=output, stderr=output, check=False).returncode
