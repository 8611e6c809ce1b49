"""What a router adds to a create, with health cached: beside the chosen backend's own create."""

from __future__ import annotations

import sys

import anyio
from measure import Sample, interleave, verdict

import sandboxio
from sandboxio import AsyncSandbox
from sandboxio.routing import Router, RouterTuning

ROUNDS = 200
LIFETIME = 60.0
BOUND_MS = 1.0

FILE = {
    "backends": {
        "here": {"adapter": "local"},
        **{f"spare{number}": {"adapter": "local", "priority": number} for number in range(8)},
    },
    "isolation_classes": {"standard": {"backend": "here"}, "other": {"backend": "spare0"}},
    "routes": [{"match": {"tool": f"tool{number}"}, "class": "other"} for number in range(20)],
    "default_class": "standard",
    "policy": {"network": {"egress": "deny"}, "limits": {"timeout_s": 300}},
}


async def decision(router: Router) -> bool:
    """Measure the decision alone, by what is known: all that a cached route costs but the create."""

    async def explain() -> None:
        router.explain(tool="none")

    (sample,) = await interleave([("explain(), 9 backends, 20 routes", explain)], ROUNDS)
    print(sample.describe())
    return verdict("a decision takes", sample.median * 1e3, BOUND_MS, at_most=True, unit=" ms")


async def create(router: Router) -> bool:
    """Measure creating through the router against creating directly, ends left out."""
    made: list[AsyncSandbox] = []

    async def direct() -> None:
        made.append(await sandboxio.create("local://", timeout=LIFETIME))

    async def routed() -> None:
        made.append(await router.create(timeout=LIFETIME))

    async def end() -> None:
        await made.pop().kill()

    ways = [("create", direct), ("end", end), ("router.create", routed), ("end, again", end)]
    samples = {sample.name: sample for sample in await interleave(ways, ROUNDS)}
    for name in ("create", "router.create"):
        print(samples[name].describe())
    added = _difference(samples["create"], samples["router.create"])
    return verdict("routing adds, median of pairs", added, BOUND_MS, at_most=True, unit=" ms")


def _difference(one: Sample, other: Sample) -> float:
    """Return the median of what each round's second took more than its first, in ms."""
    pairs = zip(one.times, other.times, strict=True)
    return Sample("", tuple(after - before for before, after in pairs)).median * 1e3


async def main() -> None:
    """Measure both."""
    router = Router.from_dict(FILE, tuning=RouterTuning(health_fresh=3600))
    async with await router.create(timeout=LIFETIME):
        pass
    kept = [await decision(router), await create(router)]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    anyio.run(main)
