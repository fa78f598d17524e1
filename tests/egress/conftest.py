"""One small world for all tests of egress; each test has machines of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.egress.town import Town, running_town


@pytest.fixture(scope="session")
def town() -> Iterator[Town]:
    with running_town("--ask-wait-s", "3", "--usable-s", "1") as running:
        yield running
