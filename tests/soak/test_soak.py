"""The soak: short and on the fake driver in CI, long and on real machines under `./berth test --soak`."""

from __future__ import annotations

import os
import random

import pytest

from tests.soak.cycles import DEEDS, soak
from tests.soak.workspace import Soaked, assert_equal
from tests.stack import Stack

SEED = int(os.environ.get("BERTH_SOAK_SEED", "0")) or random.SystemRandom().randrange(1 << 30)


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
