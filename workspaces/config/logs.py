"""Log lines without what follows a question mark. Used by settings' LOGGING; knows nothing of requests.

A query string may carry what nobody should find in a log; no line of ours needs one.
"""

from __future__ import annotations

import logging
import re

QUERY = re.compile(r"(?<=[\w/\-.])\?[^\s\"']+=[^\s\"']*")
BEARER = re.compile(r"berth_[A-Za-z0-9_\-]{8,}")
#: A path is percent-decoded before it is logged: what it holds must not look like a line of ours.
UNPRINTABLE = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")


class WithoutQuery(logging.Filter):
    """Formats the line once, masks it, and passes it on."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        masked = BEARER.sub("berth_…", QUERY.sub("?…", said))
        masked = UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), masked)
        if masked != said:
            record.msg, record.args = masked, ()
        return True
