"""What the documents tell people to write is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"


def test_the_reseeding_that_forks_are_told_to_do_makes_two_continuations_of_one_memory_differ(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (DOCUMENTS / "forks.md").read_text(), re.DOTALL)
    assert found is not None
    epoch = tmp_path / "epoch"
    epoch.write_text("4\n")
    program: dict[str, Any] = {}
    exec(found.group(1).replace("/run/berth-epoch", str(epoch)), program)
    program["keep_random"]()
    memory = program["random"].getstate()

    def goes_on(now: str) -> list[float]:
        program["random"].setstate(memory)
        program["_epoch"] = "4\n"
        epoch.write_text(now)
        program["keep_random"]()
        return [program["random"].random() for _ in range(4)]

    assert goes_on("4\n") == goes_on("4\n"), "the same machine: its own sequence"
    assert goes_on("5\n") != goes_on("5\n"), "two forks"
