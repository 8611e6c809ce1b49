"""The site for a coding assistant: ``llms.txt`` and ``llms-full.txt``.

    python tools/gen_llms.py [--write]

The first lists every page with one line, after https://llmstxt.org, and is kept in docs/. The second
is the pages that tell how to use sandboxio, in one file; it is made when the site is built, so that it
cannot be older than its pages. Both follow the navigation of mkdocs.yml. Without ``--write`` it tells
whether the first is out of date, and exits 1 then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"

LEFT_OUT: Final = ("reference/api/", "reference/contract.md", "explanation/", "index.md")
"""What llms-full.txt leaves out: it is for writing code, and has to fit into a context."""

HEAD: Final = """\
# sandboxio

> One secure Python API for running AI-agent code in any sandbox: on this machine, in Docker, on E2B. Denies the
> network, bounds every call and leaves nothing running, unless told otherwise.
"""


def navigation() -> Iterator[tuple[str, str]]:
    """Yield the section and the path of every page, in the order of the site."""
    settings: Any = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for entry in settings["nav"]:
        for section, value in entry.items():
            for path in _paths(value):
                yield section, path


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        return
    for entry in cast("Iterable[Any]", value.values() if isinstance(value, dict) else value):
        yield from _paths(entry)


def site_url() -> str:
    """Return the address of the site."""
    found = re.search(r"^site_url: (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert found
    return found[1]


def address(path: str) -> str:
    """Return the address of a page."""
    folder = re.sub(r"(^|/)(index|README)\.md$", r"\1", path).removesuffix(".md")
    return site_url() + (folder if folder in ("",) or folder.endswith("/") else f"{folder}/")


def title(text: str) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert found
    return found[1]


def summary(text: str) -> str:
    """Return the first sentence of a page."""
    for paragraph in re.split(r"\n{2,}", text.partition("\n# ")[2] or text.partition("# ")[2])[1:]:
        if re.match(r"[\w`*\[\"]", paragraph) and not paragraph.startswith("```"):
            plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=\.)\s(?=[A-Z])", plain.replace("**", ""))[0].rstrip(".:")
    return ""


def short() -> str:
    """Return llms.txt."""
    lines = [HEAD]
    before = ""
    for section, path in navigation():
        text = (DOCS / path).read_text(encoding="utf-8")
        if section != before:
            lines += [*([""] if before else []), f"## {section}", ""]
            before = section
        said = summary(text)
        lines.append(f"- [{title(text)}]({address(path)}){f': {said}' if said else ''}")
    return "\n".join([*lines, "", f"Everything in one file: {site_url()}llms-full.txt", ""])


def full() -> str:
    """Return llms-full.txt."""
    parts = [HEAD]
    for _, path in navigation():
        if not path.startswith(LEFT_OUT):
            text = (DOCS / path).read_text(encoding="utf-8")
            plain = re.sub(r"^<!--.*?-->\n+", "", text, flags=re.MULTILINE | re.DOTALL).strip()
            parts.append(f"<!-- {address(path)} -->\n\n{plain}\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write llms.txt, or say whether it is out of date."""
    path = DOCS / "llms.txt"
    if "--write" in arguments:
        path.write_text(short(), encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != short():
        print("docs/llms.txt is out of date: python3 tools/dev.py docs --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
