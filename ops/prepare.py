"""What must be there before the processes start: front end, guest image, database, static files. Each idempotent.

Called by `up`, `token` and the benches. Knows `manage.py` commands by name, nothing of what is behind them.
"""

from __future__ import annotations

import sys

from ops import frontend, programs, say
from ops.instance import ROOT, Instance

DATABASE_STAMP = "database.stamp"


def everything(instance: Instance) -> None:
    instance.make_folders()
    (instance.data / "redis").mkdir(exist_ok=True)
    built = frontend.ensure_built(instance)
    if instance.driver != "fake":
        guest_image(instance)
    database(instance)
    static_files(instance, built)


def guest_image(instance: Instance) -> None:
    """Minutes the first time, a hash afterwards. The builder keeps its own lock and cleans its own half-made files."""
    with say.quick("guest image") as note:
        programs.run([sys.executable, "-m", "sandboxes.guest.image", "--cache", str(instance.cache)],
                     log=instance.log / "setup.log", env=instance.environment(), on_line=note)


def was_set_up(instance: Instance) -> bool:
    """There is a database with its tables. Before that, whoever asks it gets errors for answers."""
    return (instance.data / DATABASE_STAMP).exists()


def database(instance: Instance) -> None:
    """Migrates when a migration is new to this database; asking Django itself would cost seconds each time."""
    stamp = instance.data / DATABASE_STAMP
    files = sorted(path for app in ("workspaces", "sandboxes") for path in (ROOT / app / "migrations").glob("*.py"))
    wanted = frontend.digest([*files, ROOT / "requirements.lock"])
    ours = (instance.data / "db.sqlite3").exists() and "BERTH_DATABASE_URL" not in instance.environment()
    if ours and frontend.read(stamp) == wanted:
        return
    with say.quick("database") as note:
        programs.manage(instance, "migrate", "--noinput", on_line=note)
    stamp.write_text(wanted)


def static_files(instance: Instance, built: str) -> None:
    """Collected again only when the front end changed; Django's own change with the Python lock, so that is in too."""
    stamp = instance.data / "static.stamp"
    wanted = built + frontend.digest([ROOT / "requirements.lock"])
    if frontend.read(stamp) == wanted:
        return
    with say.quick("static files") as note:
        programs.manage(instance, "collectstatic", "--noinput", "--clear", on_line=note)
    stamp.write_text(wanted)
