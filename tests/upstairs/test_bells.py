"""A bell is rung when what was done is committed, once for all that was done, and never for what was taken back."""

from __future__ import annotations

import pytest
from django.db import transaction

from workspaces.on_commit import once

pytestmark = pytest.mark.django_db


def test_the_last_of_many_rings_is_heard_and_none_for_what_was_taken_back(
        django_capture_on_commit_callbacks: object) -> None:
    heard: list[str] = []

    def ring(bell: str, said: str) -> None:
        once((bell,), lambda: heard.append(f"{bell}: {said}"))

    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        with transaction.atomic():
            ring("front", "checkpoint")
            ring("back", "checkpoint")
            ring("front", "intent")
            with pytest.raises(ValueError), transaction.atomic():
                ring("front", "a name that is taken")
                raise ValueError
        assert heard == [], "nothing was committed yet"
    assert heard == ["back: checkpoint", "front: intent"]
