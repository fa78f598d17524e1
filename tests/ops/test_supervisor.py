"""The supervisor over small real processes: restart, backoff, readiness, order of ending, leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from ops import down, pids
from ops.instance import Instance
from ops.roster import STOP_ORDER, Service, services
from ops.say import SetupFailed
from ops.supervisor import Supervisor

T = TypeVar("T")
SLEEPER = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
STUBBORN = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                                  "print('deaf', flush=True); time.sleep(600)"]


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    made = Instance(tmp_path / "data", tmp_path / "cache")
    made.make_folders()
    return made


@pytest.fixture
def supervise(instance: Instance) -> Iterator[Callable[..., Supervisor]]:
    made: list[Supervisor] = []

    def make(*services: Service) -> Supervisor:
        made.append(Supervisor(instance, services))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.stop(list(supervisor.children), before={})


def test_a_process_that_is_killed_is_started_again(supervise: Callable[..., Supervisor], instance: Instance) -> None:
    supervisor = supervise(Service("redis", SLEEPER))
    supervisor.start()
    first = pids.read(instance.run / "redis.pid")
    assert first is not None
    first.signal(signal.SIGKILL)
    second = look_until(supervisor, lambda: other_than(first, instance))
    assert second is not None and second.pid != first.pid


def test_a_process_that_dies_at_once_is_started_ever_more_seldom(supervise: Callable[..., Supervisor]) -> None:
    supervisor = supervise(Service("redis", [sys.executable, "-c", "raise SystemExit(3)"]))
    supervisor.start()
    child = supervisor.children["redis"]
    look_until(supervisor, lambda: child.backoff_s >= 2)
    assert child.start_at > child.started_at


def test_a_process_that_never_gets_ready_fails_with_the_end_of_its_log(supervise: Callable[..., Supervisor]) -> None:
    supervisor = supervise(Service("redis", ["echo", "no disk left"], lambda: False))
    supervisor.start()
    with pytest.raises(SetupFailed, match="no disk left"):
        supervisor.wait_ready("redis", within_s=3)


def test_processes_end_in_the_order_asked_for(supervise: Callable[..., Supervisor]) -> None:
    supervisor = supervise(Service("redis", SLEEPER), Service("gateway", SLEEPER))
    supervisor.start()
    alive: list[bool] = []
    redis = supervisor.children["redis"].process
    assert redis is not None
    supervisor.stop(["gateway", "redis"], before={"redis": lambda: alive.append(redis.poll() is None)})
    assert alive == [True]
    assert redis.poll() == -signal.SIGTERM


def test_a_process_deaf_to_term_is_killed_after_its_grace(supervise: Callable[..., Supervisor],
                                                         instance: Instance) -> None:
    supervisor = supervise(Service("redis", STUBBORN, grace_s=0.2))
    supervisor.start()
    process = supervisor.children["redis"].process
    assert process is not None
    look_until(supervisor, lambda: "deaf" in (instance.log / "redis.log").read_text())
    supervisor.stop(["redis"], before={})
    assert process.poll() == -signal.SIGKILL
    assert not (instance.run / "redis.pid").exists()


def test_what_a_killed_supervisor_left_is_ended_by_the_next_run(instance: Instance) -> None:
    orphan = subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL)
    pids.write(instance.run / "courier.pid", orphan.pid)
    down.end_leftovers(instance)
    assert orphan.wait(timeout=60) == -signal.SIGTERM
    assert not (instance.run / "courier.pid").exists()


def test_a_pid_that_belongs_to_another_program_by_now_is_left_alone(instance: Instance) -> None:
    stranger = subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL)
    try:
        (instance.run / "courier.pid").write_text(f"{stranger.pid} {pids.of(stranger.pid).start_ticks - 1}\n")
        down.end_leftovers(instance)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not pids.of(child.pid).alive()
    child.wait()


def test_every_process_of_the_roster_has_its_place_in_the_order_of_ending(instance: Instance) -> None:
    assert {service.name for service in services(instance)} == set(STOP_ORDER)


def other_than(first: pids.Process, instance: Instance) -> pids.Process | None:
    now = pids.read(instance.run / "redis.pid")
    return now if now is not None and now != first else None


def look_until(supervisor: Supervisor, found: Callable[[], T], within_s: float = 20) -> T:
    """Lets the supervisor look until something true is found."""
    deadline = time.monotonic() + within_s
    while True:
        supervisor.look()
        seen = found()
        if seen:
            return seen
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
