"""All execs of this machine: starts them, reaps every child, forgets them. Called by `execcalls.py` and `world`.

The one place that waits for children (SIGCHLD through the loop), so that nothing stays a zombie, adopted orphans
included.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.guest.agent import tty
from sandboxes.guest.agent.beginning import Beginning
from sandboxes.guest.agent.execs import STDERR, STDOUT, Exec
from sandboxes.guest.agent.loop import IN, Loop, Timer
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.spawn import Command, Spawner, refusal_to_start
from sandboxes.guest.agent.stdin import Stdin
from sandboxes.guest.agent.trees import CgroupTree, ProcTree, Tree

#: Ended execs that nobody forgot are dropped beyond this many, oldest first.
MOST_ENDED = 2000
#: How long an empty group may stay: looking costs more than starting, so it is done for many at once.
SWEEP_S = 1.0


class Request(NamedTuple):
    """An `exec.start` with everything checked and resolved, but for descriptors."""

    exec_id: str
    argv: list[bytes]
    program: bytes
    environment: dict[bytes, bytes]
    cwd: bytes
    #: Nobody asked for that folder, so one that cannot be entered locks nobody out.
    at_home: bool
    account: Any
    size: tuple[int, int] | None
    stdin: bool
    timeout_s: float | None
    max_output_bytes: int | None


Told = Callable[[Exec, "Refusal | None"], None]


class ExecTable:
    def __init__(self, loop: Loop, spawner: Spawner) -> None:
        self.execs: dict[str, Exec] = {}
        #: Who wants to hear of those of them that are between fork and execve.
        self.starting: dict[str, list[Told]] = {}
        #: The cgroup that holds one group per exec, once there is one.
        self.users_cgroup: Path | None = None
        self._loop, self._spawner = loop, spawner
        self._by_pid: dict[int, tuple[Exec, Beginning]] = {}
        self._leftover: list[Tree] = []
        self._sweeping: Timer | None = None
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._watch_children()

    def _watch_children(self) -> None:
        woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._loop.watch(woken, IN, lambda _events: self._reap(woken))

    def _reap(self, woken: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            known = self._by_pid.pop(pid, None)
            if known is not None:
                execution, beginning = known
                beginning.process_ended(pid)
                if execution.pid == pid:
                    execution.reaped(status)

    # -- starting --------------------------------------------------------------------------------------------------

    def tree_for(self, exec_id: str) -> Tree:
        return CgroupTree(self.users_cgroup, exec_id) if self.users_cgroup is not None else ProcTree(exec_id)

    def start(self, request: Request, tree: Tree, told: Told) -> None:
        """Tells once it has begun, or why it could not, and then nothing is left of it."""
        self._drop_oldest()
        execution = Exec(self._loop, request.exec_id, tree, request.max_output_bytes)
        descriptors = _Descriptors()
        self.starting[request.exec_id] = [told]
        self.execs[request.exec_id] = execution

        def begun() -> None:
            descriptors.close_lent()
            execution.cwd = beginning.command.cwd
            execution.master = ours[STDOUT] if request.size is not None else -1
            execution.stdin = Stdin(self._loop, stdin, request.size is not None) if stdin >= 0 else None
            execution.begin(beginning.pid, ours, request.timeout_s)
            self._tell(execution, None)

        def refused(refusal: Refusal) -> None:
            descriptors.close_all()
            del self.execs[execution.exec_id]
            execution.abandon()
            tree.kill()
            self._leave(tree)
            self._tell(execution, refusal)

        def cloned(pid: int) -> None:
            tree.begin(pid)
            self._by_pid[pid] = (execution, beginning)
        try:
            stdio, ours, stdin = self._open_stdio(request, descriptors)
            command = Command(request.argv, request.program, request.environment, request.cwd, request.account, stdio,
                              request.size is not None, descriptors.lend(tree.open_entry()))
            beginning = Beginning(self._loop, self._spawner, command, request.at_home, cloned, begun, refused)
            beginning.go()
        except OSError as error:
            refused(refusal_to_start(error))
        except Refusal as refusal:
            refused(refusal)
        except Exception as error:
            refused(Refusal("internal", f"exec.start: {type(error).__name__}"))
            raise

    def _tell(self, execution: Exec, refusal: Refusal | None) -> None:
        for told in self.starting.pop(execution.exec_id):
            told(execution, refusal)

    def _open_stdio(self, request: Request,
                    descriptors: _Descriptors) -> tuple[tuple[int, int, int], dict[int, int], int]:
        """(the child's three, ours of its outputs, ours of its input or -1)."""
        if request.size is not None:
            master, slave = descriptors.pair(tty.open_pair(request.account, *request.size))
            return (slave, slave, slave), {STDOUT: master}, descriptors.keep(os.dup(master))
        out, child_out = descriptors.pair(os.pipe2(os.O_CLOEXEC))
        err, child_err = descriptors.pair(os.pipe2(os.O_CLOEXEC))
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        if not request.stdin:
            return (self._null, child_out, child_err), {STDOUT: out, STDERR: err}, -1
        child_in, stdin = os.pipe2(os.O_CLOEXEC)
        descriptors.pair((stdin, child_in))
        return (child_in, child_out, child_err), {STDOUT: out, STDERR: err}, stdin

    # -- forgetting ------------------------------------------------------------------------------------------------

    def forget(self, execution: Exec) -> None:
        """Of an ended exec: what it left over lives on, and its group is removed once that has ended."""
        del self.execs[execution.exec_id]
        execution.abandon()
        self._leave(execution.tree)

    def _drop_oldest(self) -> None:
        """So many that nobody forgot, that there may be ended ones among them."""
        if len(self.execs) > MOST_ENDED:
            ended = [execution for execution in self.execs.values() if execution.outcome is not None]
            for execution in ended[:max(0, len(ended) - MOST_ENDED)]:
                self.forget(execution)

    def _leave(self, tree: Tree) -> None:
        self._leftover.append(tree)
        if self._sweeping is None:
            self._sweeping = self._loop.after(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        left = []
        for tree in self._leftover:
            if tree.lingers():
                left.append(tree)
            else:
                tree.remove()
        self._leftover = left
        self._sweeping = self._loop.after(SWEEP_S, self._sweep) if left else None

    def signal_all(self, number: int) -> None:
        for execution in self.execs.values():
            execution.tree.signal(number)


class _Descriptors:
    """What a start has opened: kept ends, and lent ends that close once the child has its copies."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._lent: list[int] = []

    def pair(self, pair: tuple[int, int]) -> tuple[int, int]:
        self._kept.append(pair[0])
        self._lent.append(pair[1])
        return pair

    def keep(self, fd: int) -> int:
        self._kept.append(fd)
        return fd

    def lend(self, fd: int) -> int:
        if fd >= 0:
            self._lent.append(fd)
        return fd

    def close_lent(self) -> None:
        for fd in self._lent:
            os.close(fd)

    def close_all(self) -> None:
        for fd in (*self._kept, *self._lent):
            os.close(fd)
