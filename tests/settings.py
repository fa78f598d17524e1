"""Django's settings under pytest: the product's own, over a state folder that is thrown away.

pytest-django loads this before any conftest, which is why the folder is made here. Child processes of the
tests inherit the folder and do not make another. Guest images stay in the shared cache: they cost minutes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

if "BERTH_TEST_ROOT" not in os.environ:
    kept = Path(os.environ.get("BERTH_DATA", "/var/lib/berth")) / "cache"
    os.environ.setdefault("BERTH_CACHE", str(kept))
    os.environ["BERTH_TEST_ROOT"] = tempfile.mkdtemp(prefix="berth-test-")
    os.environ["BERTH_TEST_OWNER"] = str(os.getpid())
    os.environ["BERTH_DATA"] = os.environ["BERTH_TEST_ROOT"] + "/data"
    Path(os.environ["BERTH_DATA"]).mkdir()

from workspaces.config.settings import *  # noqa: E402,F403
