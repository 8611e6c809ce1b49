"""What MkDocs does for this site besides rendering Markdown: whole programs become pages.

A link to a program or a configuration file of ``docs/`` works on a repository's web page as it is. On
the site it leads to a page that shows the file, highlighted and with a button to copy it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads a hook by its path
import docs_blocks
import gen_llms

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

LANGUAGES: Final = {".py": "python", ".toml": "toml", ".yaml": "yaml"}
FOLDERS: Final = ("examples/", "adapter-template/")
NOTE: Final = '<p class="not-run">{}</p>'
NOT_RUN: Final = re.compile(
    r"^<!-- not run: (?P<why>[^>]+?) -->\n+(?P<fence>```.*?\n```)$", re.MULTILINE | re.DOTALL
)
LINK: Final = re.compile(r"(\]\((?![a-z]+:)[^)#\s]+\.(?:py|toml|yaml))(?=[)#])")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put a page in the place of each program, and add the file that is made of all pages."""
    for file in list(files):
        if not file.src_uri.startswith(FOLDERS) or file.is_documentation_page():
            continue
        files.remove(file)
        language = LANGUAGES.get(Path(file.src_uri).suffix)
        if language is not None and file.abs_src_path is not None:
            files.append(_shown(config, file.src_uri, language, Path(file.abs_src_path)))
    files.append(File.generated(config, "llms-full.txt", content=gen_llms.full()))
    return files


def _shown(config: MkDocsConfig, uri: str, language: str, path: Path) -> File:
    text = path.read_text(encoding="utf-8").rstrip()
    heading = f"---\nsearch:\n  exclude: true\n---\n# {path.name}\n\n`docs/{uri}`\n\n"
    page = f"{heading}````{language}\n{text}\n````\n"
    return File.generated(config, f"{uri}.md", content=page)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to programs lead to their pages, and say what of a page is run."""
    del config, files
    text = NOT_RUN.sub(_noted, LINK.sub(r"\1.md", markdown))
    target = docs_blocks.RUNS_ON.search(text)
    if "```python" in text and target and not page.file.src_uri.startswith("errors/"):
        text += f"\n\n{NOTE.format(f'CI runs the Python of this page on {target[1]}.')}\n"
    return text


def _noted(found: re.Match[str]) -> str:
    return f"{found['fence']}\n\n{NOTE.format('Not run in CI: ' + found['why'] + '.')}\n"
