"""One whole product on real machines, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack import Stack, running_stack


@pytest.fixture(scope="session")
def real_stack(cache: Path) -> Iterator[Stack]:
    """Its machines go through the front door: QEMU, namespaces and taps are nobody's children to be ended."""
    with running_stack("auto", cache) as made:
        try:
            yield made
        finally:
            for user in {words[0] for words in made.tokens}:
                purge(made, user)


def purge(stack: Stack, user: str) -> None:
    with stack.client(user) as client:
        for row in client.get("/api/v1/workspaces").json()["results"]:
            client.delete(f"/api/v1/workspaces/{row['id']}?purge=true&wait=true&timeout_s=120")
