"""Which acts of a token wait for a member: pure. Read by the gateway (execs), the API (restore, delete) and approvals.

A workspace's `approvals` is `{"exec": [patterns], "restore": bool, "delete": bool, "timeout_s": n}`. Patterns are the
shell's (`*`, `?`, `[…]`) and meet the command as it is written, each of its parts between `;`, `&&`, `||`, `|` and
line ends, and what a shell is given with `-c`; with or without `sudo` and assignments before it. This is advice and
no fence: who may run commands can write the same act in another way. Only `*` holds every new exec back.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_PATTERNS, LONGEST_PATTERN = 100, 200
LEAST_S, DEFAULT_S, LONGEST_S = 1, 300, 24 * 3600
#: What a person can be asked to read, and what may be matched without keeping others waiting.
LONGEST_COMMAND = 64 * 1024
MOST_PARTS = 500

PARTS = re.compile(r"&&|\|\||[;|&\n(){}`]")
BEFORE = re.compile(r"\A(?:(?:sudo(?:\s+-\S+)*|env|command|exec|nohup|time|[A-Za-z_]\w*=\S*)\s+)+")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


def waits(rules: Mapping[str, Any], kind: str) -> bool:
    """For `restore` and `delete`."""
    return bool(rules.get(kind))


def timeout_s(rules: Mapping[str, Any]) -> int:
    return int(rules.get("timeout_s") or DEFAULT_S)


def met_by(rules: Mapping[str, Any], command: Any) -> str | None:
    """The first pattern that the command meets, or None. What is no command meets nothing: hostd refuses it."""
    patterns: Sequence[str] = rules.get("exec") or ()
    if not patterns:
        return None
    texts = list(_texts(command))
    for pattern in patterns:
        match = re.compile(fnmatch.translate(pattern)).match
        if any(match(text) for text in texts):
            return pattern
    return None


def length(command: Any) -> int:
    """Characters of a command, however it is given."""
    if isinstance(command, str):
        return len(command)
    return sum(len(word) + 1 for word in command if isinstance(word, str)) if isinstance(command, list) else 0


def _texts(command: Any) -> Iterator[str]:
    if isinstance(command, str):
        yield from _text(command)
    elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        yield from _text(" ".join(command))
        yield from _text(shlex.join(command))
        if command[0].rpartition("/")[2] in SHELLS:
            yield from (text for word in command[1:] if not word.startswith("-") for text in _text(word))


def _text(text: str) -> Iterator[str]:
    yield text
    for part in [text, *PARTS.split(text)[:MOST_PARTS]]:
        plain = " ".join(part.split())
        yield plain
        bare = BEFORE.sub("", plain)
        if bare != plain:
            yield bare
