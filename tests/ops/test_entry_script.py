"""The entry script in a small tree of its own: uv and the programs of Debian's package system are recorded doubles."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Notes its arguments, makes what `uv venv` makes, and dies or waits in a sync when it is told to.
UV = """#!/bin/bash
echo "$*" >> "$CALLS"
case "$1" in
  --version) sed -i '$d' "$CALLS"; echo uv ;;
  venv) rm -rf .venv; mkdir -p .venv/bin
        printf '#!/bin/bash\\necho ran "$@"\\n' > .venv/bin/python; chmod +x .venv/bin/python ;;
  pip) [[ ! -e $CALLS.die ]] || kill -9 $PPID $$; while [[ -e $CALLS.hold ]]; do sleep 0.05; done ;;
esac
"""


class Tree:
    """A checkout with nothing but the entry script and what it reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self.calls = folder / "calls"
        (self.folder / "ops").mkdir(parents=True)
        shutil.copy(ROOT / "berth", self.folder / "berth")
        for name in ("apt.txt", "uv.txt"):
            shutil.copy(ROOT / "ops" / name, self.folder / "ops" / name)
        for name in ("requirements.lock", "requirements-dev.lock"):
            (self.folder / name).write_text(f"# {name}\n")
        version = next(line for line in (ROOT / "ops" / "uv.txt").read_text().splitlines()
                       if line.startswith("uv==")).removeprefix("uv==").split()[0]
        uv = folder / "cache" / "uv" / version / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        uv.write_text(UV)
        uv.chmod(0o755)
        self.env = {**os.environ, "BERTH_DATA": str(folder / "data"), "BERTH_CACHE": str(folder / "cache"),
                    "BERTH_SKIP_APT": "1", "CALLS": str(self.calls)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(["./berth", *arguments], cwd=self.folder, env=self.env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def uv_calls(self) -> list[str]:
        return [line.split()[0] for line in self.calls.read_text().splitlines()] if self.calls.exists() else []


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_first_run_makes_the_environment_and_hands_over(tree: Tree) -> None:
    done = tree.run("status", "--json")
    assert (done.returncode, done.stdout) == (0, "ran -m ops status --json\n")
    assert tree.uv_calls() == ["venv", "pip"]
    assert "--require-hashes" in tree.calls.read_text()


def test_a_second_run_does_no_set_up(tree: Tree) -> None:
    tree.run("status")
    tree.calls.unlink()
    done = tree.run("status")
    assert (done.stdout, done.stderr, tree.uv_calls()) == ("ran -m ops status\n", "", [])


def test_a_changed_lock_is_synced_without_a_new_environment(tree: Tree) -> None:
    tree.run("status")
    tree.calls.unlink()
    (tree.folder / "requirements.lock").write_text("# another\n")
    assert tree.run("status").returncode == 0
    assert tree.uv_calls() == ["pip"]


def test_the_environment_of_the_checks_serves_every_other_command(tree: Tree) -> None:
    tree.run("test")
    tree.calls.unlink()
    assert tree.run("status").returncode == 0
    assert tree.uv_calls() == []


def test_an_environment_of_the_checks_keeps_their_tools_when_a_commit_changes_the_locks(tree: Tree) -> None:
    tree.run("test")
    tree.calls.unlink()
    for name in ("requirements.lock", "requirements-dev.lock"):
        (tree.folder / name).write_text(f"# another {name}\n")
    assert tree.run("status").returncode == 0
    assert tree.uv_calls() == ["pip"]
    assert tree.calls.read_text().splitlines()[-1].split()[-1] == "requirements-dev.lock"
    tree.calls.unlink()
    tree.run("test")
    assert tree.uv_calls() == [], "it is whole again"


def test_the_environment_of_a_plain_run_is_completed_for_the_checks(tree: Tree) -> None:
    tree.run("status")
    tree.run("test")
    assert "requirements-dev.lock" in tree.calls.read_text().splitlines()[-1]


def test_a_set_up_killed_in_the_middle_is_made_anew_by_the_next_run(tree: Tree) -> None:
    Path(f"{tree.calls}.die").touch()
    assert tree.run("status").returncode == -signal.SIGKILL
    assert (tree.folder / ".venv" / "bin" / "python").exists()
    Path(f"{tree.calls}.die").unlink()
    tree.calls.unlink()
    assert tree.run("status").stdout == "ran -m ops status\n"
    assert tree.uv_calls() == ["venv", "pip"]


def test_two_runs_at_once_set_up_once_and_the_second_says_that_it_waits(tree: Tree) -> None:
    hold = Path(f"{tree.calls}.hold")
    hold.touch()
    first = tree.start("status")
    wait_until(lambda: "pip" in tree.uv_calls())
    second = tree.start("status")
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    hold.unlink()
    assert [p.communicate(timeout=60)[0] for p in (first, second)] == ["ran -m ops status\n"] * 2
    assert tree.uv_calls() == ["venv", "pip"]


def test_an_unknown_command_sets_nothing_up(tree: Tree) -> None:
    done = tree.run("upp")
    assert done.returncode == 1
    assert "unknown command: upp" in done.stderr
    assert not (tree.folder / ".venv").exists()


def test_only_missing_packages_are_installed_and_no_service_may_start_meanwhile(tree: Tree, tmp_path: Path) -> None:
    doubles = tmp_path / "bin"
    doubles.mkdir()
    wanted = [line.split()[0] for line in (ROOT / "ops" / "apt.txt").read_text().splitlines()
              if line.strip() and not line.startswith("#")]
    installed = " ".join(f"{name}=installed" for name in wanted if name != "cpio")
    write_double(doubles / "dpkg-query", f"echo '{installed} '")
    write_double(doubles / "apt-get", 'echo "apt-get $*" >> "$CALLS"; [[ $1 != install ]] || /usr/sbin/policy-rc.d; '
                                      'echo "policy $?" >> "$CALLS"')
    policy_before = Path("/usr/sbin/policy-rc.d").exists()
    tree.env |= {"BERTH_SKIP_APT": "0", "PATH": f"{doubles}:{os.environ['PATH']}"}
    assert tree.run("up").returncode == 0
    calls = tree.calls.read_text().splitlines()
    assert calls[:4] == ["apt-get update -q", "policy 0", "apt-get install -q -y --no-install-recommends cpio",
                         "policy 101"]
    assert Path("/usr/sbin/policy-rc.d").exists() == policy_before


def test_with_every_package_there_apt_is_not_called(tree: Tree, tmp_path: Path) -> None:
    doubles = tmp_path / "bin"
    doubles.mkdir()
    write_double(doubles / "dpkg-query", 'for name; do printf "%s=installed " "$name"; done')
    write_double(doubles / "apt-get", 'echo "apt-get $*" >> "$CALLS"')
    tree.env |= {"BERTH_SKIP_APT": "0", "PATH": f"{doubles}:{os.environ['PATH']}"}
    assert tree.run("up").returncode == 0
    assert "apt-get" not in tree.calls.read_text()


def write_double(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def wait_until(true: object, within_s: float = 20) -> None:
    assert callable(true)
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
