"""hostd: one process per VM host, the only one that touches machines' bodies, disks and exec spools.

Called over HTTP by `sandboxes/hostlink.py` (plans) and the gateway (bytes); calls the drivers and the guest link.
It never knows workspaces, users, Django, a database or Redis.

    http handlers ──▶ operations ──▶ boot ──▶ driver ──▶ body (a VM that outlives hostd)
          │                │                                │
          └──▶ execs ──▶ tape (disk)   registry (disk) ◀── watch, adopt
                  └──────────▶ feed (disk) ◀───────────────┘
"""
