"""Analyse this machine's package database in a sandbox that cannot reach the network.

    python docs/examples/analyse_packages.py [DSN]

It uploads Debian's ``/var/lib/dpkg/status`` (several MB) together with a program of its own, runs
that program, shows its progress as it comes, downloads the result, and then shows two things that
do not work: a call to the network, and a command that takes too long.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import anyio

import sandboxio
from sandboxio import AsyncSandbox

STATUS = Path("/var/lib/dpkg/status")

PROGRAM = """
import collections, json, re, sys

text = open("status", encoding="utf-8", errors="replace").read()
paragraphs = [part for part in text.split("\\n\\n") if part.strip()]
sizes, sections, dependants = {}, collections.Counter(), collections.Counter()
for number, paragraph in enumerate(paragraphs, 1):
    fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
    sizes[fields["Package"]] = int(fields.get("Installed-Size", 0))
    sections[fields.get("Section", "none")] += 1
    needs = fields.get("Depends", "") + "," + fields.get("Pre-Depends", "")
    for name in {re.split(r"[ (:|]", need.strip())[0] for need in needs.split(",")}:
        if name:
            dependants[name] += 1
    if number % 200 == 0 or number == len(paragraphs):
        print(f"{number} of {len(paragraphs)} packages", flush=True)
json.dump(
    {
        "packages": len(paragraphs),
        "installed_kib": sum(sizes.values()),
        "largest": sorted(sizes, key=sizes.get, reverse=True)[:5],
        "sections": sections.most_common(5),
        "most_needed": dependants.most_common(5),
    },
    open("report.json", "w"),
    indent=2,
)
"""

CALL_HOME = """
import socket
socket.create_connection(("1.1.1.1", 443), timeout=5)
"""


async def analyse(sandbox: AsyncSandbox, status: Path, report: Path) -> None:
    """Upload, run, show the progress, download."""
    await sandbox.files.upload(status, "status")
    await sandbox.files.write("analyse.py", PROGRAM)
    async with sandbox.stream(["python3", "analyse.py"], timeout=60) as process:
        async for chunk in process:
            print("   ", chunk.data.decode(), end="")
        (await process.wait()).raise_for_status()
    await sandbox.files.download("report.json", report)


async def main(target: str) -> None:
    """Do it all, and fail if what must be refused is not."""
    if not STATUS.exists():
        sys.exit(f"This example needs a Debian or Ubuntu machine: there is no {STATUS}.")
    async with await sandboxio.create(target, timeout=120) as sandbox:
        print(f"{sandbox!r}")
        print(f"1. Analysing {STATUS} ({STATUS.stat().st_size / 1e6:.1f} MB)")
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            await analyse(sandbox, STATUS, report)
            found = json.loads(report.read_text())
        print(f"    {found['packages']} packages, {found['installed_kib'] / 1024:.0f} MiB")
        print(f"    largest: {', '.join(found['largest'])}")
        print(f"    most needed: {', '.join(name for name, _ in found['most_needed'])}")

        print("2. Calling home from inside")
        result = await sandbox.run_code(CALL_HOME)
        if result.ok:
            sys.exit("The network was reached, and it must not be.")
        print("    refused:", result.stderr.strip().splitlines()[-1])

        print("3. A command that takes too long")
        try:
            await sandbox.run("echo started; sleep 600", timeout=1)
        except sandboxio.ExecutionTimeout as error:
            print(f"    {error.code}: {error.message} Until then it said {error.stdout!r}.")
        else:
            sys.exit("The timeout did not fire.")
        print("    the sandbox lives on:", (await sandbox.run(["echo", "yes"])).stdout.strip())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "local://")
