"""The phases of a machine's body and what hostd says of it. Pure, stdlib only.

`Phase` is what is true of a body now; it is written by the plan runner alone (Django row) and, on the host,
by hostd's registry alone (machine.json). It is never an intent: intents live upstairs.

    absent ──create_disk──▶ stopped ──boot──▶ starting ──▶ running ──shutdown──▶ stopping ──▶ stopped
       │                                         ▲  │         │ │ (QEMU gone, nobody asked)
       │                                         │  └──failed─┼─┴────────▶ dead ──boot──▶ starting
       │                                       boot           └──park──▶ parked ──discard_memory──▶ stopped
       └──clone──▶ stopped | parked              └────────────────────────┘
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    ABSENT = "absent"      # no disk, no body
    STOPPED = "stopped"    # disk, no body
    PARKED = "parked"      # disk and a memory image, no body
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DEAD = "dead"          # the body ended and nobody had asked for it; the disk is there
    DESTROYED = "destroyed"


class OperationKind(StrEnum):
    CREATE_DISK = "create_disk"   # absent -> stopped; already there: done
    BOOT = "boot"                 # stopped|dead|parked -> running; already running: done; parked: its memory goes on
    SHUTDOWN = "shutdown"         # running -> stopped by a clean guest shutdown, kill after grace_s
    KILL = "kill"                 # any -> stopped, at once
    DESTROY = "destroy"           # any -> absent; body, disk, spool, namespace
    PARK = "park"                 # running -> parked; already parked: done
    CAPTURE = "capture"           # a checkpoint of any phase that has a disk; the phase stays
    ROLLBACK = "rollback"         # -> stopped, or parked with the checkpoint's memory; a body is ended
    CLONE = "clone"               # absent -> stopped, or parked with the source's memory; already there: done
    DROP = "drop"                 # forgets one checkpoint; not there: done
    DISCARD_MEMORY = "discard_memory"  # parked -> stopped; no memory kept: done
    COLLAPSE = "collapse"         # shortens the disk's chain


class OperationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
