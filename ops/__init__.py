"""The machine room: starts, watches and stops Berth's processes, and runs its checks and benches.

Called by the entry script `./berth` (`python -m ops COMMAND`). Knows programs, folders and ports; speaks to
Django only through `manage.py` commands and to hostd only over its socket. Never imports Django or workspaces.
"""
