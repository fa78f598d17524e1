"""A terminal with a command line's `shell` in it, as a person has: a pty, keys, a size. For tests with a real stack."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time


class Screen:
    def __init__(self, argv: list[str], environment: dict[str, str], size: tuple[int, int] = (100, 30)) -> None:
        self._master, slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(argv, env=environment, stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self._slave = slave
        self.shown = b""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        os.close(self._master)
        os.close(self._slave)

    def resize(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str, timeout_s: float = 60) -> bytes:
        """What was shown up to and with the text; the rest is kept for the next."""
        deadline = time.monotonic() + timeout_s
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was not shown; the end is {self.shown[-400:]!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                self.shown += os.read(self._master, 65536)
        before, found, self.shown = self.shown.partition(text.encode())
        return before + found

    def type_until(self, keys: str, text: str, timeout_s: float = 60) -> None:
        """Types it again and again until the text is shown: what it waits for happens elsewhere, at its own time."""
        deadline = time.monotonic() + timeout_s
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was not shown; the end is {self.shown[-400:]!r}"
            self.type(keys)
            if select.select([self._master], [], [], 0.5)[0]:
                self.shown += os.read(self._master, 65536)
        self.until(text)

    def ended(self, timeout_s: float = 60) -> int:
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on; the end is {self.shown[-400:]!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                self.shown += os.read(self._master, 65536)
        while select.select([self._master], [], [], 0)[0]:
            self.shown += os.read(self._master, 65536)
        assert termios.tcgetattr(self._slave) == self.before, "the terminal was not left as it was found"
        return self.process.returncode
