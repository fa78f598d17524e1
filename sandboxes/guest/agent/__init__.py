"""The guest agent: one process, stdlib only, Python 3.11+. It runs in the VM from the read-only tools disk.

Import path: the tools disk carries `sandboxes/__init__.py`, `sandboxes/errors.py`, `sandboxes/guest/__init__.py`,
`sandboxes/guest/protocol.py` and this package under their own names, nothing else of Berth; so nothing here may
import anything else of it.

    port ─bytes─ session ─frames─ streams ─calls─ methods ─┬─ exec calls ── execs, spawn (zygote), output, trees
                                                           ├─ file calls ── workers (threads with the user's rights)
                                                           └─ world calls ─ world, clock, quiesce, metrics, poweroff

One thread runs the loop and everything about execs. Worker threads serve file calls only and talk to the loop by
posting functions to it. Imports are few: an emulated CPU pays for each.
"""

VERSION = "1"
