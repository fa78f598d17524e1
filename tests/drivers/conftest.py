"""Both drivers, and the folders they keep their state in: one per session for QEMU, because a template costs a boot."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from sandboxes.guest.image.build import ensure
from sandboxes.spec import ImageSet
from tests.drivers.world import World
from tests.machine_template import lay_into


@pytest.fixture(scope="session")
def images(cache: Path) -> ImageSet:
    return ensure(cache, print)


@pytest.fixture(scope="session")
def qemu_state(cache: Path, images: ImageSet):
    folder = Path(tempfile.mkdtemp(prefix="bd-qemu-"))
    lay_into(folder, cache)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def short_folder():
    """Sockets live below it, and their paths may have 107 characters: a parallel run's tmp_path is too long."""
    folder = Path(tempfile.mkdtemp(prefix="bd-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["fake", pytest.param("qemu", marks=pytest.mark.vm)])
async def world(request: pytest.FixtureRequest, short_folder: Path):
    """A driver of each kind."""
    if request.param == "qemu":
        world = World("qemu", request.getfixturevalue("qemu_state"), request.getfixturevalue("images"))
    else:
        world = World("fake", short_folder / "host", None)
    yield world
    await world.end()


@pytest.fixture
async def qemu_world(qemu_state: Path, images: ImageSet):
    """For what only real machines do."""
    world = World("qemu", qemu_state, images)
    yield world
    await world.end()


@pytest.fixture(autouse=True, scope="session")
def as_root():
    assert os.geteuid() == 0, "drivers make namespaces: these tests need root"
