"""What machines may reach. `policy` is pure and both floors ask it; `client` is hostd's end of the connection to
egressd; `daemon` is egressd, which knows neither hostd nor the web.
"""

from __future__ import annotations

from typing import Any

DENY_ALL: dict[str, Any] = {"mode": "deny-all"}
