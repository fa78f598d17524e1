"""The count that closes a run of all checks, from real reports of real pytest runs. No product process is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ops import checks


def report(folder: Path, body: str) -> Path:
    folder.mkdir()
    (folder / "test_few.py").write_text(body)
    apart = ["-c", "/dev/null", "-p", "no:django", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, "-m", "pytest", "-q", *apart, f"--junitxml={folder / 'report.xml'}", str(folder)],
                   cwd=folder, capture_output=True, check=False)
    return folder / "report.xml"


def test_the_count_adds_what_both_runs_executed_and_what_failed(tmp_path: Path) -> None:
    good = report(tmp_path / "good", "def test_a(): pass\ndef test_b(): pass\n")
    mixed = report(tmp_path / "mixed", "def test_c(): pass\ndef test_d(): assert False\ndef test_e(missing): pass\n")
    assert checks.counted([good, mixed]) == (3, 2)


def test_a_run_that_left_no_report_is_a_failure(tmp_path: Path) -> None:
    good = report(tmp_path / "good", "def test_a(): pass\n")
    assert checks.counted([good, tmp_path / "never.xml"]) == (1, 1)
