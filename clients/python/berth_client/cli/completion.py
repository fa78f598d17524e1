"""Shell completion for bash, zsh and fish: one list of candidates, asked for by three small scripts. Called by `main`.

The scripts run `berth-cli __complete WORD…` (the last word is the one begun), so a new command or option needs nothing
here. Names of workspaces come from the server, quickly or not at all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from berth_client import Berth
from berth_client.problems import BerthError
from berth_client.retry import Retry

SCRIPTS = {
    "bash": """_berth_cli() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -W "$(berth-cli __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- \
"${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _berth_cli berth-cli
""",
    "zsh": """#compdef berth-cli
_berth_cli() {
    local -a found
    found=("${(@f)$(berth-cli __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found || _files
}
compdef _berth_cli berth-cli
""",
    "fish": """function __berth_cli
    set -l words (commandline -opc) (commandline -ct)
    berth-cli __complete $words[2..-1] 2>/dev/null
end
complete -c berth-cli -f -a '(__berth_cli)'
""",
}
WORKSPACE = "workspace"


def print_script(asked: argparse.Namespace) -> int:
    print(SCRIPTS[asked.shell], end="")
    return 0


def candidates(root: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What the last word may become."""
    *before, begun = words or [""]
    here, positional = walked(root, before)
    if begun.startswith("-"):
        found: Iterable[str] = (option for action in here._actions for option in action.option_strings)
    elif positional is None:
        found = ()
    elif positional.choices is not None:
        found = (str(choice) for choice in positional.choices)
    elif positional.dest == WORKSPACE:
        found = workspaces()
    else:
        found = ()
    return sorted(word for word in found if word.startswith(begun))


def walked(root: argparse.ArgumentParser, before: Sequence[str]
           ) -> tuple[argparse.ArgumentParser, argparse.Action | None]:
    """The (sub)parser that the words lead to, and the positional that comes next."""
    here, taken, skip = root, 0, False
    for word in before:
        if skip:
            skip = False
        elif word.startswith("-"):
            action = here._option_string_actions.get(word)
            skip = action is not None and action.nargs is None
        elif isinstance(following := next_positional(here, taken), argparse._SubParsersAction):
            here, taken = following.choices.get(word, here), 0
        else:
            taken += 1
    return here, next_positional(here, taken)


def next_positional(parser: argparse.ArgumentParser, taken: int) -> argparse.Action | None:
    positionals = [action for action in parser._actions if not action.option_strings]
    return positionals[taken] if taken < len(positionals) else None


def workspaces() -> list[str]:
    try:
        with Berth(retry=Retry(total_s=0), timeout=2) as berth:
            return [one.name for one in berth.workspaces.list(limit=200)]
    except BerthError:
        return []
