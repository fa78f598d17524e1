#!/usr/bin/env python
"""The door for Django's commands. Called by people and by `berth`; calls Django; knows only which settings to use."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspaces.config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
