"""Write the pages of the error codes: what the classes say, and a program that provokes each.

    python tools/gen_errors.py [--write]

``docs/errors/examples/<code>.py`` is a program that ends with that error. Its docstring is what only a
person can say: causes and fixes. Everything else comes from `sandboxio.errors`. Without ``--write``
it tells which pages are out of date, and exits 1 then.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from sandboxio import errors
from sandboxio.errors import SandboxError

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "errors"
EXAMPLES: Final = FOLDER / "examples"
BOUND: Final = 100.0
"""Seconds that an example may take; they take one or two."""

AT_ONCE: Final = 2
"""Examples that run at the same time: they are short, and most of each is a Python that starts."""

FAMILIES: Final = {
    "10": "The request",
    "11": "What a backend cannot do",
    "12": "Sandboxes that come and go",
    "13": "Commands",
    "14": "Policy and caps",
    "15": "The provider",
    "16": "The record",
    "17": "Files",
}
RETRYABLE: Final = {
    True: "yes: the same call may succeed later",
    False: "no: it fails again until something is changed",
    None: "it depends: `error.retryable` says it, or is `None`",
}


def catalog() -> dict[str, type[SandboxError]]:
    """Return the classes by their codes, in the order of the codes."""
    found: dict[str, type[SandboxError]] = {}
    for name in errors.__all__:
        kind: object = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, SandboxError) and "code" in vars(kind):
            code = vars(kind)["code"]
            if code is not None:
                found[str(code)] = kind
    return dict(sorted(found.items()))


def provoke(code: str) -> str:
    """Run the example of a code and return what a person sees at its end.

    Raises:
        ValueError: It did not end with that error, or not in time.
    """
    path = EXAMPLES / f"{code}.py"
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-W", "error", str(path)],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=BOUND,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            message = f"{path.name} did not end within {BOUND:g} s"
            raise ValueError(message) from late
    kind = catalog()[code]
    said = re.search(
        rf"^{re.escape(kind.__module__)}\.{kind.__name__}: (\[{code}\] .*?\n  Docs: \S+)$",
        done.stderr,
        re.MULTILINE | re.DOTALL,
    )
    if done.returncode != 1 or said is None:
        message = f"{path.name} exits with {done.returncode}, and not with {kind.__name__}:\n"
        raise ValueError(message + done.stderr)
    return re.sub(r"sbx-[0-9a-f]{16}", "sbx-…", said[1])


def page(code: str, seen: str) -> str:
    """Return the page of a code; `seen` is what its example ends with."""
    kind = catalog()[code]
    source = (EXAMPLES / f"{code}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    prose = ast.get_docstring(tree) or ""
    program = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip()
    summary, _, causes = prose.partition("\n\n## ")
    parents = [f"`{base.__name__}`" for base in kind.__mro__[1:] if issubclass(base, SandboxError)]
    return f"""\
# {code}: {kind.__name__}

{meaning(kind)}

{summary}

| | |
|---|---|
| Class | `sandboxio.{kind.__name__}` |
| Caught by | {", ".join(parents)} |
| Worth trying again | {RETRYABLE[kind.default_retryable]} |
| Usual hint | {cell(kind.default_hint)} |

## {causes}

## A program that provokes it

<!-- not run: it ends with this error, which a test of its own expects -->
```python
{program}
```

It ends with:

```text
{seen}
```

All codes: [the list](index.md). The class: [API of the errors](../reference/api/errors.md).

<!-- Made by tools/gen_errors.py from errors.py and examples/{code}.py. -->
"""


def meaning(kind: type[SandboxError]) -> str:
    """Return what the class says of itself, without its attributes."""
    text = inspect.getdoc(kind) or ""
    return re.split(r"\n\nAttributes:\n", text)[0].replace("``", "`")


def cell(text: str) -> str:
    """Return text as a cell of a table."""
    return text.replace("|", "\\|")


def index() -> str:
    """Return the page that lists all codes."""
    lines = [
        "# Error codes",
        "",
        "Every error of sandboxio has a code, a sentence that says what happened, a hint that says what to do, and the",
        "address of its page here. Codes are stable; the wording of messages is not, so compare `error.code`, or catch",
        "the class. No message holds a secret, a value of the environment or your code.",
        "",
        "`SandboxError` catches all of them, and `SandboxTimeout` both timeouts. None of them is a builtin",
        "`TimeoutError` or `OSError`: a builtin `TimeoutError` around a call is your own deadline.",
    ]
    family = ""
    for code, kind in catalog().items():
        if code[5:7] != family:
            family = code[5:7]
            lines += [
                "",
                f"## {FAMILIES[family]}",
                "",
                "| Code | Class | Meaning |",
                "|---|---|---|",
            ]
        first = " ".join(meaning(kind).split("\n\n")[0].split())
        lines.append(f"| [{code}]({code}.md) | `{kind.__name__}` | {cell(first)} |")
    lines += ["", "<!-- Made by tools/gen_errors.py from errors.py. -->"]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Run every example, and return every page that has to be there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = dict(zip(catalog(), pool.map(provoke, catalog()), strict=True))
    return {
        FOLDER / "index.md": index(),
        **{FOLDER / f"{code}.md": page(code, text) for code, text in seen.items()},
    }


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are out of date."""
    problems = 0
    for path, text in pages().items():
        if "--write" in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is out of date: python tools/gen_errors.py --write")
            problems += 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
