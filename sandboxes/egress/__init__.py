"""What machines may reach. `policy` is pure and both floors ask it; `client` is hostd's end of the connection to
egressd; `daemon` is egressd, which knows neither hostd nor the web.
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
