"""The E2B backend beside E2B's bare SDK, against one local double of E2B, in one run."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
from measure import Sample, interleave, verdict

# This file has the name of E2B's SDK, and its folder would come first when that is imported.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

from e2b_code_interpreter import AsyncSandbox as BareSandbox

import sandboxio
from sandboxio import AsyncSandbox

ROUNDS = int(os.environ.get("ROUNDS", "41"))


async def commands(ours: AsyncSandbox, bare: BareSandbox) -> bool:
    """Measure one command, and one piece of code in an interpreter that runs."""
    context = await bare.create_code_context()
    await ours.run_code("1", context_id="bench")

    async def bare_run() -> None:
        await bare.commands.run("true")

    async def our_run() -> None:
        (await ours.run(["true"])).raise_for_status()

    async def bare_code() -> None:
        await bare.run_code("print(6 * 7)", context=context)

    async def our_code() -> None:
        (await ours.run_code("print(6 * 7)", context_id="bench")).raise_for_status()

    async def our_one_shot() -> None:
        (await ours.run_code("print(6 * 7)")).raise_for_status()

    samples = await interleave(
        [
            ("bare commands.run('true')", bare_run),
            ("run(['true'])", our_run),
            ("bare run_code in a context", bare_code),
            ("run_code(context_id=...)", our_code),
            ("run_code without a context", our_one_shot),
        ],
        ROUNDS,
    )
    by_name = shown(samples)
    run = ratio(by_name, "run(['true'])", "bare commands.run('true')")
    code = ratio(by_name, "run_code(context_id=...)", "bare run_code in a context")
    kept = verdict("run(['true']) / bare SDK", run, 1.15, at_most=True)
    return verdict("run_code / bare SDK", code, 1.15, at_most=True) and kept


async def creation() -> bool:
    """Measure a create, and what it takes until the first command has run."""

    async def bare_create() -> None:
        bare.append(await BareSandbox.create(timeout=120, allow_internet_access=False))

    async def bare_first() -> None:
        await bare[-1].commands.run("true")

    async def bare_end() -> None:
        await bare.pop().kill()

    async def our_create() -> None:
        ours.append(await sandboxio.create("e2b://", timeout=120))

    async def our_first() -> None:
        (await ours[-1].run(["true"])).raise_for_status()

    async def our_end() -> None:
        await ours.pop().kill()

    bare: list[BareSandbox] = []
    ours: list[AsyncSandbox] = []
    samples = await interleave(
        [
            ("bare create", bare_create),
            ("bare first command", bare_first),
            ("bare kill", bare_end),
            ("create", our_create),
            ("first command", our_first),
            ("kill", our_end),
        ],
        ROUNDS,
    )
    by_name = shown(samples)
    return verdict("create / bare SDK", ratio(by_name, "create", "bare create"), 1.10, at_most=True)


def shown(samples: list[Sample]) -> dict[str, Sample]:
    """Print samples and return them by name."""
    for sample in samples:
        print(sample.describe())
    return {sample.name: sample for sample in samples}


def ratio(samples: dict[str, Sample], ours: str, bare: str) -> float:
    """Return how many times as long as the bare SDK it takes."""
    return samples[ours].median / samples[bare].median


async def main() -> bool:
    """Measure everything."""
    kept = await creation()
    async with await sandboxio.create("e2b://", timeout=600) as ours:
        bare = await BareSandbox.create(timeout=600, allow_internet_access=False)
        try:
            return await commands(ours, bare) and kept
        finally:
            await bare.kill()


def serve() -> tuple[subprocess.Popen[str], dict[str, str]]:
    """Start the double in a process of its own: the service is not in ours either."""
    server = subprocess.Popen(
        [sys.executable, "-m", "sandboxio_testing.e2b"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    lines = [server.stdout.readline() for _ in range(4)]
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines)
    return server, {name: value for name, _, value in pairs}


if __name__ == "__main__":
    process, variables = serve()
    try:
        os.environ.update(variables)
        code = 0 if anyio.run(main) else 1
    finally:
        process.terminate()
        process.wait(60)
    sys.exit(code)
