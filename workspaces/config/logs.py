"""Log lines without what follows a question mark. Used by settings' LOGGING; knows nothing of requests.

A query string may carry what nobody should find in a log; no line of ours needs one.
"""

from __future__ import annotations

import logging
import re

QUERY = re.compile(r"(?<=[\w/\-.])\?[^\s\"']+=[^\s\"']*")
BEARER = re.compile(r"berth_[A-Za-z0-9_\-]{8,}")


class WithoutQuery(logging.Filter):
    """Formats the line once, masks it, and passes it on."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        masked = BEARER.sub("berth_…", QUERY.sub("?…", said))
        if masked != said:
            record.msg, record.args = masked, ()
        return True
