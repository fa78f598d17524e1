"""Terminals: a pair of pty descriptors of the right size, owner and mode. Called by `execs.py`."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from sandboxes.guest.agent.accounts import Account

MOST_CELLS = 10_000
END_OF_FILE = b"\x04"
_TTY_GROUP = 5
_IUTF8 = 0o40000
#: A master that was last read this long ago and has no more is taken as drained once its process has ended.
QUIET_S = 0.05


def open_pair(account: Account, cols: int, rows: int) -> tuple[int, int]:
    """(master, slave); the slave belongs to the user, so that programs may open and chmod it."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    os.fchown(slave, account.uid, _TTY_GROUP)
    os.fchmod(slave, 0o620)
    modes = termios.tcgetattr(slave)
    modes[0] |= _IUTF8
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    resize(master, cols, rows)
    return master, slave


def resize(master: int, cols: int, rows: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
