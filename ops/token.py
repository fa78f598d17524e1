"""`./berth token`: one API token on stdout and nothing else. The user and the token are `manage.py`'s business."""

from __future__ import annotations

import sys

from ops import prepare, programs
from ops.instance import from_environment


def token(arguments: list[str]) -> int:
    instance = from_environment()
    instance.make_folders()
    prepare.database(instance)
    code, text = programs.manage_stdout(instance, "berth_token", *arguments)
    sys.stdout.write(text)
    return code
