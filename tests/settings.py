"""The product's settings with a scratch folder, cheap password hashing and no Redis. Used by pytest alone.

pytest-django loads this before any conftest, which is why the folder is made here: whatever BERTH_DATA the
caller has, tests never touch it. Child processes of the tests inherit the folder and do not make another; only the
workers of a parallel run have one each.
Guest images stay in the caller's cache: they cost minutes.
"""

import os
import tempfile
from pathlib import Path

_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if "BERTH_TEST_ROOT" not in os.environ or os.environ.get("BERTH_TEST_WORKER", "") != _worker:
    _kept = Path(os.environ.get("BERTH_DATA") or "/var/lib/berth") / "cache"
    os.environ.setdefault("BERTH_CACHE", str(_kept))
    os.environ["BERTH_TEST_WORKER"] = _worker
    os.environ["BERTH_TEST_ROOT"] = tempfile.mkdtemp(prefix="berth-test-")
    os.environ["BERTH_TEST_OWNER"] = str(os.getpid())
    # Of the whole run: workers have it from who started them.
    os.environ.setdefault("BERTH_TEST_TEMPLATES", os.environ["BERTH_TEST_ROOT"] + "/templates")
    os.environ["BERTH_DATA"] = os.environ["BERTH_TEST_ROOT"] + "/data"
    Path(os.environ["BERTH_DATA"]).mkdir()

from workspaces.config.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
CELERY_BROKER_URL = "memory://"
REDIS_URL = ""
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # noqa: F405
# A real file, so that threads and child processes meet in it as they do in the product.
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": os.environ["BERTH_DATA"] + "/test.sqlite3"}  # noqa: F405
