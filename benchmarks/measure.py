"""Measuring side by side: rounds are interleaved, so that what else the machine does hits both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """The times of one way of doing something, in seconds."""

    name: str
    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.times)

    def describe(self, unit: float = 1e3, suffix: str = "ms") -> str:
        """Return the median and the spread between the quartiles."""
        low, _, high = statistics.quantiles(self.times, n=4)
        return (
            f"{self.name:<38} {self.median * unit:8.2f} {suffix}"
            f"  (quartiles {low * unit:.2f} to {high * unit:.2f}, {len(self.times)} rounds)"
        )


async def interleave(
    ways: Sequence[tuple[str, Callable[[], Awaitable[object]]]], rounds: int
) -> list[Sample]:
    """Measure each way once per round, in turn; the first round only warms up."""
    times: dict[str, list[float]] = {name: [] for name, _ in ways}
    for number in range(rounds + 1):
        for name, way in ways:
            began = time.perf_counter()
            await way()
            if number:
                times[name].append(time.perf_counter() - began)
    return [Sample(name, tuple(values)) for name, values in times.items()]


def verdict(what: str, value: float, bound: float, *, at_most: bool, unit: str = "") -> bool:
    """Print whether a value keeps its bound, and return it."""
    kept = value <= bound if at_most else value >= bound
    relation = "at most" if at_most else "at least"
    mark = "ok  " if kept else "MISS"
    print(f"  {mark} {what}: {value:.2f}{unit} ({relation} {bound:g}{unit})")
    return kept
