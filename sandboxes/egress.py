"""What a machine may reach. Pure; asked by upstairs before a policy is kept.

Machines of this version have a network device and no uplink: everything is refused, on the host's side, where
nothing in the guest can widen it. A policy that promises more is refused rather than kept unkept.
"""

from __future__ import annotations

from typing import Any

DENY_ALL: dict[str, Any] = {"mode": "deny-all"}
MODES = ("allow-all", "deny-all", "rules")


def unsupported(policy: dict[str, Any]) -> str:
    """Why hosts cannot carry out this policy; empty when they can."""
    if policy.get("mode", "deny-all") != "deny-all":
        return "Hosts of this version give machines no uplink: only deny-all can be kept."
    return ""
