"""The phases of a machine's body and what hostd says of it. Pure, stdlib only.

`Phase` is what is true of a body now; it is written by the plan runner alone (Django row) and, on the host,
by hostd's registry alone (machine.json). It is never an intent: intents live upstairs.

    absent ──create_disk──▶ stopped ──boot──▶ starting ──▶ running ──shutdown──▶ stopping ──▶ stopped
                                                 │            │ (QEMU gone, nobody asked)
                                                 └──failed────┴──────────▶ dead ──boot──▶ starting
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    ABSENT = "absent"      # no disk, no body
    STOPPED = "stopped"    # disk, no body
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DEAD = "dead"          # the body ended and nobody had asked for it; the disk is there
    DESTROYED = "destroyed"


class OperationKind(StrEnum):
    CREATE_DISK = "create_disk"   # absent -> stopped; already there: done
    BOOT = "boot"                 # stopped|dead -> running; already running: done
    SHUTDOWN = "shutdown"         # running -> stopped by a clean guest shutdown, kill after grace_s
    KILL = "kill"                 # any -> stopped, at once
    DESTROY = "destroy"           # any -> absent; body, disk, spool, namespace


class OperationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
