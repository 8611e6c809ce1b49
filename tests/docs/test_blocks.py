"""The tools that run the documentation notice when it lies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import docs_blocks
import docs_console
import docs_site
import workspace

RUNNER = workspace.ROOT / "tools" / "docs_run.py"


def page(folder: Path, text: str) -> docs_blocks.Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return docs_blocks.read(path)


def run(folder: Path, text: str) -> tuple[int, str]:
    path = page(folder, text).path
    done = subprocess.run(
        [sys.executable, "-W", "error", str(RUNNER), str(path)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


# --- reading


def test_blocks_of_a_page_with_what_is_said_of_each(tmp_path: Path) -> None:
    found = page(
        tmp_path,
        """\
# A page

<!-- runs on: the fake -->

<!-- setup
x = 1
-->

```python
print(x)
```

```output
1
```

<!-- not run: it costs
money -->
```console
rocket launch
```

````markdown
```python
not a block of this page
```
````
""",
    )
    assert found.target == "the fake"
    assert found.problems == []
    assert [(block.language, block.code, block.line) for block in found.blocks] == [
        ("python", "x = 1", 6),
        ("python", "print(x)", 10),
        ("console", "rocket launch", 20),
        ("markdown", "```python\nnot a block of this page\n```", 24),
    ]
    assert [block.hidden for block in found.blocks] == [True, False, False, False]
    assert found.blocks[1].output == "1"
    assert [block.skipped for block in found.blocks] == [None, None, "it costs money", None]


def test_reason_counts_for_the_next_block_only(tmp_path: Path) -> None:
    found = page(tmp_path, "<!-- not run: no -->\n\ntext\n\n```python\nx\n```\n")
    assert found.blocks[0].skipped is None


def test_unknown_target_is_a_problem(tmp_path: Path) -> None:
    assert page(tmp_path, "<!-- runs on: the moon -->\n").problems != []


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("a … c", "a b c\n", True),
        ("a\nb", "a\nb", True),
        ("a   b", "a b", True),
        ("a", "a\nb", False),
        ("a … c", "a b\nc", False),
        ("a.c", "abc", False),
    ],
)
def test_output_matches(expected: str, got: str, same: bool) -> None:
    assert docs_blocks.matches(expected, got) is same


# --- running

RIGHT = """\
```python
import sandboxio

sandbox = await sandboxio.create("fake://")
print((await sandbox.run(["echo", "a"])).stdout)  # prints a
```

```python
await sandbox.run("sleep 60", timeout=1)  # raises ExecutionTimeout
```

```python
async def test_it(sbx_fake):
    assert sbx_fake.calls == []
```
"""


@pytest.mark.slow
def test_page_that_is_right_passes(tmp_path: Path) -> None:
    code, said = run(tmp_path, RIGHT)
    assert code == 0, said


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("# prints a", "# prints b", "did not print 'b'"),
        ("# raises ExecutionTimeout", "# raises SandboxGone", "ExecutionTimeout"),
        ('"sleep 60"', '"true"', "did not raise ExecutionTimeout"),
        ("sbx_fake.calls == []", "sbx_fake.calls != []", "1 failed"),
        ("import sandboxio", "import sandboxi", "ModuleNotFoundError"),
        (" a\n```\n", " a\n```\n\n```output\nsomething else\n```\n", "the page says"),
    ],
)
@pytest.mark.slow
def test_page_that_lies_fails(tmp_path: Path, was: str, becomes: str, said: str) -> None:
    assert was in RIGHT
    # Both event loops run the test of the page, so one failure is two.
    code, output = run(tmp_path, RIGHT.replace(was, becomes))
    assert code == 1
    assert said.replace("1 failed", "failed") in output


# --- transcripts and files


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('```console\nuv pip install "sandboxio[docker]"\n```', ""),
        ('```console\nuv pip install "sandboxio[dokcer]"\n```', "no extra dokcer"),
        ("```console\npython3 tools/dev.py docs\n```", ""),
        ("```console\npython3 tools/dev.py dosc\n```", "no verb dosc"),
        ("```console\nmake world\n```", "nobody knows whether this runs"),
        ("```console\n$ python -c 'print(1)'\n1\n```", ""),
        ("```console\n$ python -c 'print(1)'\n2\n```", "the page says"),
        ("```console\npython -c 'raise SystemExit(3)'\n```", "failed"),
        ("```toml\na = \n```", "Invalid value"),
        ('```json\n{"a": }\n```', "Expecting value"),
        ("```yaml\nbackends: {}\nisolation_classes: {}\n```", "backends"),
        ("```ruby\nputs 1\n```", "nobody knows what to do"),
    ],
)
def test_transcript_or_file_is_checked(tmp_path: Path, text: str, wrong: str) -> None:
    problems = docs_console.check(page(tmp_path, text))
    assert bool(problems) is bool(wrong)
    assert wrong in "".join(problems)


# --- the built site


def test_broken_links_anchors_and_remote_assets_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top"></h1><a href="a/#there">1</a><a href="a/#gone">2</a><a href="b/">3</a>'
        '<a href="#top">4</a><a href="https://example.com/">5</a>'
        '<script src="https://cdn.example.com/x.js"></script><img src="data:,x"><img src="no.png">'
    )
    (tmp_path / "a" / "index.html").write_text('<p id="there"></p><a href="../">up</a>')
    found = [each for each in docs_site.problems(tmp_path) if each.startswith(("index", "a/"))]
    assert found == [
        "index.html: a/#gone",
        "index.html: b/",
        "index.html: loads https://cdn.example.com/x.js",
        "index.html: loads no.png",
    ]


def test_error_without_a_page_is_found(tmp_path: Path) -> None:
    assert "ExecutionTimeout: there is no page errors/SBX_E1302" in docs_site.problems(tmp_path)
