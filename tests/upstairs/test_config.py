"""The wiring: headers, cookies, hosts, origins, logs, the secret key, and who may write what."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.upstairs.conftest import HOST, Api
from workspaces.api import errors
from workspaces.config import logs, origin, place

ROOT = Path(__file__).resolve().parents[2]


def sources(*folders: str) -> list[tuple[str, str]]:
    return [(str(path.relative_to(ROOT)), path.read_text()) for folder in folders
            for path in (ROOT / folder).rglob("*.py") if "migrations" not in path.parts]


@pytest.mark.parametrize(("what", "pattern", "writer"), [
    ("a sandbox's phase", r"\bsandbox\.phase\s*=[^=]|phase=(Phase|seen|\"|')[^)]*\)?\.?(save|update)",
     "sandboxes/plans/runner.py"),
    ("a workspace's intent", r"\.intent(,\s*\w+\.\w+)*\s*=[^=]", "workspaces/services.py"),
    ("a workspace's state", r"workspace\.state(,\s*\w+\.\w+)*\s*=[^=]|row\.state\s*=[^=]", "workspaces/announce.py"),
    ("a generation", r"\.generation\s*\+?=[^=]", "workspaces/services.py"),
])
def test_each_fact_has_one_writer(what: str, pattern: str, writer: str) -> None:
    upstairs = [(name, text) for name, text in sources("workspaces", "sandboxes")
                if not name.startswith(("sandboxes/host/", "sandboxes/drivers/", "sandboxes/guest/"))]
    writers = {name for name, text in upstairs if re.search(pattern, text)}
    assert writers == {writer}, what


def test_only_one_module_knows_status_numbers_of_refusals() -> None:
    knowing = {name for name, text in sources("workspaces/api") if re.search(r"status=4\d\d|status=5\d\d", text)}
    assert knowing <= {"workspaces/api/errors.py"}


def test_no_code_is_used_that_has_no_status() -> None:
    used = {code for _, text in sources("workspaces") for code in re.findall(r"Problem\(\"(\w+)\"", text)}
    assert used <= set(errors.STATUS)


@pytest.mark.django_db
def test_every_answer_carries_the_headers_that_keep_browsers_safe(api: Api) -> None:
    for path in ("/api/v1/me", "/api/v1/nothing", "/readyz", "/sign-in"):
        answer = Client().get(path, headers={"host": HOST})
        policy = answer["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe-inline" not in re.search(r"script-src[^;]*", policy).group(0)
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Referrer-Policy"] == "same-origin"
    assert api("GET", "me")["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_a_host_nobody_named_is_refused() -> None:
    assert Client().get("/api/v1/me", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(("headers", "allowed"), [
    ({}, True), ({b"host": b"localhost:8000", b"origin": b"http://localhost:8000"}, True),
    ({b"host": b"localhost:8000", b"origin": b"http://localhost:8001"}, False),
    ({b"host": b"localhost:8000", b"origin": b"http://evil.example"}, False),
    ({b"host": b"evil.example", b"origin": b"http://evil.example"}, False),
    ({b"host": b"localhost:8000", b"origin": b"null"}, False),
    ({b"host": b"localhost:8000", b"origin": b"http://1--a.preview.localhost:8000"}, False),
])
def test_a_socket_is_opened_by_our_own_origin_or_by_no_browser(headers: dict[bytes, bytes], allowed: bool) -> None:
    assert origin.may_connect(headers) is allowed


@pytest.mark.parametrize("former_mode", [None, 0o644])
def test_only_its_owner_reads_the_database_whatever_made_it(tmp_path: Path, former_mode: int | None,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTH_DATABASE_URL", raising=False)
    if former_mode is not None:
        (tmp_path / "db.sqlite3").touch(mode=former_mode)
    name = str(place.database(tmp_path)["NAME"])
    with sqlite3.connect(name) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE sessions (key TEXT)")
        database.commit()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 3 and set(modes.values()) == {0o600}


def test_the_secret_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(place.secret_key(tmp_path / "new"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1 and len(made[0]) > 60
    assert stat.S_IMODE(os.stat(tmp_path / "new" / "secret_key").st_mode) == 0o600
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["secret_key"]


@pytest.mark.parametrize(("line", "kept"), [
    ("GET /x?token=abc&y=1 200", "GET /x?… 200"), ("GET /x 200", "GET /x 200"),
    ("got berth_abcdefghijklmnop here", "got berth_… here"), ("really? yes", "really? yes"),
])
def test_logs_hold_no_query_strings_and_no_tokens(line: str, kept: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (line,), None)
    assert logs.WithoutQuery().filter(record) and record.getMessage() == kept


def test_a_path_cannot_forge_a_line_of_the_log() -> None:
    line = 'user:a "GET /x\r\n2026-01-01 INFO all is well\x1b[2J\u2028" 404 1ms'
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (line,), None)
    assert logs.WithoutQuery().filter(record)
    assert record.getMessage() == r'user:a "GET /x\r\n2026-01-01 INFO all is well\x1b[2J\u2028" 404 1ms'


def test_a_database_url_is_taken_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERTH_DATABASE_URL", "postgresql://u:p%40ss@db:5433/berth")
    said = place.database(tmp_path)
    assert (said["NAME"], said["HOST"], said["PORT"], said["PASSWORD"]) == ("berth", "db", "5433", "p@ss")
    monkeypatch.setenv("BERTH_DATABASE_URL", "mysql://x")
    with pytest.raises(ValueError, match="postgresql"):
        place.database(tmp_path)


@pytest.mark.django_db
def test_readyz_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Client().get("/readyz", headers={"host": HOST})
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "database": "ok", "broker": "not configured", "host": "no host answers"}


@pytest.mark.django_db
def test_the_admin_site_shows_every_model_and_no_secret(root: Any) -> None:
    from django.contrib import admin
    from django.urls import reverse

    client = Client(headers={"host": HOST})
    client.force_login(root)
    ours = [model for model in admin.site._registry if model._meta.app_label in ("workspaces", "sandboxes")]
    assert len(ours) >= 12
    for model in ours:
        page = client.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))
        assert page.status_code == 200, model
    assert client.get("/admin/login/").headers["Location"].startswith("/sign-in")
