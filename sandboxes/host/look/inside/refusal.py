"""What the reader refuses, with a code of the public contract. Raised by every module of `inside`; pure."""

from __future__ import annotations


class Refused(Exception):
    """`code` as hostd will say it: file_not_found, not_a_directory, too_many_links, disk_unreadable, …"""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


def unreadable(detail: str) -> Refused:
    """The disk is not what a file system should be: a guest's doing, or a disk that was never formatted."""
    return Refused("disk_unreadable", detail)
