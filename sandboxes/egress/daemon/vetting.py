"""Whether an address that an answer names may be one that a guest is told of. Called by `questions` and `judging`.

The host's own addresses are found by trying to have them: no list of them can be out of date.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from sandboxes.egress.policy import Document, is_private


def is_own(address: IPv4Address) -> bool:
    """Whether it is one of the host's: then a socket can have it. What is private is not looked at any closer."""
    if is_private(address):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def vetted(document: Document, address: IPv4Address) -> bool:
    near = is_private(address) or is_own(address)
    return not near or any(address in network for network in document.private_allowed)
