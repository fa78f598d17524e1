"""`python -m berth_client.cli`: the same as the console script `berth-cli`."""

from __future__ import annotations

import sys

from berth_client.cli import main

sys.exit(main())
