"""One measured figure and what it stands beside. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """`beside` is the floor or peer of the same run, in the same unit; `goal` is the ratio or sum to stay under."""

    name: str
    value: float
    unit: str
    beside: float | None = None
    beside_name: str = ""
    goal: str = ""
    detail: dict[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return round(self.value / self.beside, 3) if self.beside else None

    def as_text(self) -> str:
        text = f"{self.name:<22} {self.value:>9.2f} {self.unit}"
        if self.beside is not None:
            text += f"   beside {self.beside:.2f} {self.unit} ({self.beside_name}), ratio {self.ratio}"
        if self.goal:
            text += f"   goal: {self.goal}"
        return text + "".join(f"\n{'':<24}{key}: {value}" for key, value in self.detail.items())


def median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000


def p95_ms(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1] * 1000 if len(seconds) > 1 else seconds[0] * 1000
