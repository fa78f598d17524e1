"""What every test stands on: options, order, and a state folder that goes away. See tests/settings.py.

Cheap tests run first, so that a mistake shows before a machine boots; side by side the dear ones do, so that the end
of a run does not wait for one worker.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests.stack import stack  # noqa: F401  (a session's one stack, for every folder of tests)

#: How long an example takes says how busy the machine is, and nothing of what it shows.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

#: Later is slower; a test without one of these markers runs first.
SLOW_MARKS = ("vm", "stack", "browser", "soak")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", default=False, help="also run the long tests marked soak")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        left_out = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
    # Stable: order within a class of cost stays.
    items.sort(key=cost, reverse="PYTEST_XDIST_WORKER" in os.environ)


def cost(item: pytest.Item) -> int:
    return max((n + 1 for n, mark in enumerate(SLOW_MARKS) if item.get_closest_marker(mark)), default=0)


def pytest_unconfigure() -> None:
    if os.environ.get("BERTH_TEST_OWNER") == str(os.getpid()):
        shutil.rmtree(os.environ["BERTH_TEST_ROOT"], ignore_errors=True)


@pytest.fixture(scope="session")
def cache() -> Path:
    """Where guest images are kept between runs; the image builder fills it when empty."""
    return Path(os.environ["BERTH_CACHE"])
