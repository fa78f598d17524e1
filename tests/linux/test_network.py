"""Namespaces and taps: made by system calls, named so that two instances never clash, undone without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import secrets

import pytest

from sandboxes.errors import StepFailed
from sandboxes.linux import netns, taps
from sandboxes.linux.names import instance_of, machine_of_netns, netns_name
from sandboxes.linux.processes import run
from tests.linux.test_bodies import until


@pytest.fixture
def instance() -> str:
    return secrets.token_hex(4)


async def test_a_tap_is_up_in_its_own_namespace_with_fixed_addresses_and_no_way_out(instance):
    fd = await netns.create(instance, "one", taps.open_tap)
    try:
        name = netns_name(instance, "one")
        links = json.loads((await run(["ip", "-n", name, "-j", "address"])).text)
        by_name = {link["ifname"]: link for link in links}
        assert set(by_name) == {"lo", taps.TAP_NAME}
        tap = by_name[taps.TAP_NAME]
        assert tap["address"] == taps.HOST_MAC
        assert [(a["local"], a["prefixlen"]) for a in tap["addr_info"] if a["family"] == "inet"] == [("10.77.0.1", 30)]
        assert "UP" in tap["flags"]
        assert (await run(["ip", "-n", name, "route", "show", "default"])).text == ""
        assert taps.TAP_NAME not in os.listdir("/sys/class/net")
    finally:
        os.close(fd)
        await netns.delete(instance, "one")
    assert not netns.path_of(instance, "one").exists()


async def test_two_instances_with_the_same_machine_id_do_not_meet(instance):
    other = secrets.token_hex(4)
    fds = [await netns.create(each, "same", taps.open_tap) for each in (instance, other)]
    await netns.delete(instance, "same")
    assert netns.machines(instance) == set() and netns.machines(other) == {"same"}
    await netns.delete(other, "same")
    for fd in fds:
        os.close(fd)


async def test_a_failure_inside_leaves_no_namespace(instance):
    def fail() -> None:
        raise OSError(28, "no")

    with pytest.raises(StepFailed):
        await netns.create(instance, "one", fail)
    assert netns.machines(instance) == set()


async def test_deleting_twice_and_making_over_what_was_left_is_the_same_as_once(instance):
    await netns.create(instance, "one", lambda: None)
    await netns.create(instance, "one", lambda: None)
    await netns.delete(instance, "one")
    await netns.delete(instance, "one")
    assert netns.machines(instance) == set()


async def test_our_own_threads_stay_in_our_own_network(instance):
    before = os.readlink("/proc/self/ns/net")
    await netns.create(instance, "one", lambda: None)
    await until(lambda: namespaces_of_our_threads() == {before})
    await netns.delete(instance, "one")


def namespaces_of_our_threads() -> set[str]:
    found = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(os.readlink(f"/proc/self/task/{task}/ns/net"))
    return found


def test_a_name_says_its_instance_and_machine(tmp_path):
    mine, other = instance_of(tmp_path / "a"), instance_of(tmp_path / "b")
    assert mine != other and instance_of(tmp_path / "x" / ".." / "a") == mine
    assert machine_of_netns(mine, netns_name(mine, "m")) == "m"
    assert machine_of_netns(other, netns_name(mine, "m")) is None
