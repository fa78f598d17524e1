"""`python -I -S …/inside/__main__.py`: one request as JSON on standard input, one answer on standard output.

Started by `look/reader.py`, which says what a request holds. The answer is a line of JSON (`{"ok":…}` or
`{"error":{"code","detail"}}`); after the one for `read` follow the bytes. It ends when it has answered.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from sandboxes.host.look.inside import calls, rights
from sandboxes.host.look.inside.refusal import Refused


def main() -> int:
    request = json.loads(sys.stdin.buffer.readline())
    try:
        calls.load()
        if not request.get("keep_rights"):
            rights.give_up()
        calls.answer(request, sys.stdin.buffer, sys.stdout.buffer)
    except Refused as refused:
        calls.say(sys.stdout.buffer, {"error": {"code": refused.code, "detail": refused.detail}})
    except (MemoryError, RecursionError):
        calls.say(sys.stdout.buffer, {"error": {"code": "disk_unreadable", "detail": "the disk asks for too much"}})
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
