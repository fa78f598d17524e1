"""Commands as a person or a program sees them: what is on stdout, what the exit code says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops import doctor
from ops.instance import Instance

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = {"ok", "note", "stop"}


def command(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "BERTH_DATA": str(data), "DJANGO_SETTINGS_MODULE": "workspaces.config.settings"}
    return subprocess.run([sys.executable, "-m", "ops", *arguments], cwd=ROOT, env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=120)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One database for the commands that need one; making it is most of their time."""
    return tmp_path_factory.mktemp("commands") / "data"


def test_token_prints_one_token_and_nothing_else(data: Path) -> None:
    first = command(data, "token", "ann", "--scope", "exec")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("berth_")
    assert first.stdout.count("\n") == 1
    assert "database" in first.stderr
    again = command(data, "token", "ann")
    assert again.stdout != first.stdout
    assert "database" not in again.stderr


def test_a_token_that_cannot_be_made_leaves_stdout_empty(data: Path) -> None:
    refused = command(data, "token", "ann", "--scope", "everything")
    assert (refused.returncode != 0, refused.stdout) == (True, "")
    assert "everything" in refused.stderr


def test_status_of_nothing_is_an_answer_and_an_exit_code(tmp_path: Path) -> None:
    done = command(tmp_path, "status", "--json")
    facts = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, "")
    assert (facts["running"], facts["set_up"]) == (False, False)
    assert {process["name"] for process in facts["processes"]} >= {"supervisor", "hostd", "gateway"}
    assert facts["workspaces"] == {}
    said = command(tmp_path, "status")
    assert (said.returncode, said.stderr) == (3, "")
    assert said.stdout == f"Nothing was set up yet in {tmp_path}. ./berth up does it.\n"


def test_status_after_a_set_up_that_was_cut_off_before_its_database_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("half a set-up")
    done = command(tmp_path, "status")
    assert (done.returncode, done.stderr) == (3, "") and "Nothing was set up yet" in done.stdout


def test_status_of_a_database_that_cannot_be_read_says_so_in_a_line(data: Path, tmp_path: Path) -> None:
    assert command(data, "token", "ann").returncode == 0
    whole = command(data, "status", "--json")
    assert (whole.returncode, json.loads(whole.stdout)["set_up"]) == (1, True), "set up, and not running"
    (tmp_path / "database.stamp").write_text("as if")
    (tmp_path / "db.sqlite3").write_bytes(b"this was a database once")
    broken = command(tmp_path, "status")
    assert (broken.returncode, broken.stderr) == (1, "")
    assert "database cannot be read: " in broken.stdout and "Traceback" not in broken.stdout


def test_down_of_nothing_is_fine(tmp_path: Path) -> None:
    done = command(tmp_path, "down")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Nothing runs here" in done.stderr


def test_doctor_answers_in_json_with_advice_for_whatever_is_not_well(tmp_path: Path) -> None:
    done = command(tmp_path, "doctor", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == (0 if said["can_run"] else 1)
    assert {fact["verdict"] for fact in said["facts"]} <= VERDICTS
    assert {"qemu", "kvm", "cgroups", "disk", "network"} <= {fact["name"] for fact in said["facts"]}
    assert all(fact["advice"] for fact in said["facts"] if fact["verdict"] != "ok")


@pytest.mark.parametrize(("app", "previews", "verdict"), [
    ("https://berth.example.org", "preview.example.org", "note"),
    ("https://berth.example.org", "berth-previews.example.net", "ok"),
    ("", "preview.localhost", "ok"),
])
def test_doctor_warns_when_previews_share_the_apps_registrable_domain(
        app: str, previews: str, verdict: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERTH_PUBLIC_URL", app)
    monkeypatch.setenv("BERTH_PREVIEW_DOMAIN", previews)
    assert doctor.preview_domain(Instance(tmp_path, tmp_path)).verdict == verdict


def test_doctor_says_stop_when_a_program_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "which", lambda name: None)
    assert doctor.redis(Instance(tmp_path, tmp_path)).verdict == "stop"
    assert "apt-get" in doctor.image_tools(Instance(tmp_path, tmp_path)).advice


@pytest.mark.parametrize("arguments", [("upp",), ("up", "--port", "0"), ("up", "--port", "70000"), ("bench", "no")])
def test_a_wrong_command_line_is_refused_before_anything_is_done(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = command(tmp_path / "data", *arguments)
    assert done.returncode == 2
    assert not (tmp_path / "data").exists()
