"""Ways to run machines behind one interface (`base.py`). hostd asks `select` for one."""

from sandboxes.drivers.choice import select

__all__ = ["select"]
