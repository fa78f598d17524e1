"""`berth-cli`: the command line, on the client and nothing else. `main` is the console script.

    grammar    what may be said           say        what is printed, and what an error means
    lives      create, list, start, …     runs       exec and logs        screen     shell and exec --tty
    asked      names into ids             endings    exit codes           tars       folders as streams
    copies     cp                         ways       forward, ports       pasts      checkpoints, fork, diff
    accounts   login, tokens, approvals   completion bash, zsh, fish

Exit codes: 0; 1 refused or failed; 2 not understood; 130 interrupted. `exec` and `shell` exit with what the command did
(128+n for a signal, 124 timed out, 137 killed, 126 never began) and with 255 for their own failures, as ssh does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from berth_client.cli import say
from berth_client.cli.completion import candidates
from berth_client.cli.grammar import parsed, parser
from berth_client.problems import BerthError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["__complete"]:
        print("\n".join(candidates(parser(), words[1:])))
        return 0
    asked = parsed(words)
    try:
        return int(asked.run(asked))
    except BerthError as error:
        say.failure(error, as_json=asked.json)
        return int(getattr(asked, "own_failure", 1))
    except KeyboardInterrupt:
        say.note("Interrupted; what was begun in the workspace goes on.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read this has gone; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        say.note(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return int(getattr(asked, "own_failure", 1))
