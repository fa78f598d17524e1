"""The soak: short and on the fake driver in CI, long and on real machines under `./berth test --soak`."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.cycles import DEEDS, soak
from tests.soak.workspace import Soaked, assert_equal
from tests.stack import Stack, running_stack

SEED = int(os.environ.get("BERTH_SOAK_SEED", "0")) or random.SystemRandom().randrange(1 << 30)


@pytest.fixture
def real_stack(cache: Path) -> Iterator[Stack]:
    """Its machines go through the front door: QEMU, namespaces and taps are nobody's children to be ended."""
    with running_stack("auto", cache) as made:
        try:
            yield made
        finally:
            with made.client() as client:
                for row in client.get("/api/v1/workspaces").json()["results"]:
                    client.delete(f"/api/v1/workspaces/{row['id']}?purge=true&wait=true&timeout_s=120")


def soaked(stack: Stack) -> Soaked:
    client = stack.client()
    return Soaked(stack, client, stack.workspace()["id"])


def test_a_manifest_that_differs_names_the_path_and_what_it_should_be() -> None:
    whole = [{"path": "YQ==", "sha256": "1"}, {"path": "Yg==", "sha256": "2"}]
    assert_equal(whole, list(whole), "nothing")
    for wrong in (whole[:1], [*whole, {"path": "Yw=="}], [whole[0], {"path": "Yg==", "sha256": "3"}]):
        with pytest.raises(AssertionError, match=r"after a test: 1 paths differ.*(Yg|Yw)"):
            assert_equal(wrong, whole, "a test")


@pytest.mark.stack
def test_whatever_is_done_to_a_workspace_its_tree_is_what_it_should_be(stack: Stack) -> None:
    done = soak(soaked(stack), len(DEEDS), SEED)
    assert set(done) == set(DEEDS)


@pytest.mark.vm
def test_a_real_machines_tree_comes_through_rest_restore_and_death(real_stack: Stack) -> None:
    """Very short: memory, a point in time, a killed machine and a killed host, once each."""
    one = soaked(real_stack)
    chance = random.Random(SEED)
    for name in ("standby", "checkpoint", "restore", "machine dies", "host dies"):
        one.change(chance.randrange(1 << 30))
        DEEDS[name](one, chance)
        one.check(f"{name} (seed {SEED})")


@pytest.mark.soak
@pytest.mark.vm
def test_thirty_mixed_cycles_on_real_machines(real_stack: Stack) -> None:
    assert soak(soaked(real_stack), 30, SEED).total() == 30


@pytest.mark.soak
@pytest.mark.vm
def test_one_checkpoint_is_restored_a_hundred_times(real_stack: Stack) -> None:
    one = soaked(real_stack)
    one.change(SEED)
    point = one.checkpoint()
    for n in range(100):
        one.change(SEED + n + 1)
        safety = one.restore(point)
        one.check(f"restore {n} (seed {SEED})")
        del one.points[safety]
        one.client.delete(f"{one.url}/checkpoints/{safety}")
    one.look(point)


@pytest.mark.soak
@pytest.mark.stack
def test_two_hundred_mixed_cycles_on_the_fake_driver(stack: Stack) -> None:
    assert soak(soaked(stack), 200, SEED).total() == 200
