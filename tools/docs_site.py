"""Check the site that was built: every link and anchor leads somewhere, and nothing is remote."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import workspace
from sandboxio import errors

ELSEWHERE: Final = ("sandboxio_mcp.cli.", "sandboxio_testing.plugin.")
"""Modules that somebody else calls: the command line, which has a page of its own, and pytest."""

LOADED: Final = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
}
"""What a browser fetches by itself."""

MADE_BY_SCRIPTS: Final = {"__comments", "__search"}
"""Anchors that the theme adds when the page runs."""


@dataclass
class Document:
    """What one page has: its anchors, its links, and what it makes a browser load."""

    anchors: set[str] = field(default_factory=set[str])
    links: list[str] = field(default_factory=list[str])
    loaded: list[str] = field(default_factory=list[str])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.document = Document()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name in ("id", "name"):
            if values.get(name) and (name == "id" or tag == "a"):
                self.document.anchors.add(str(values[name]))
        if tag == "a" and values.get("href"):
            self.document.links.append(str(values["href"]))
        for kind, name in LOADED:
            if tag == kind and values.get(name) and values.get("rel") != "canonical":
                self.document.loaded.append(str(values[name]))


def read(path: Path) -> Document:
    """Return what a page has."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.document


def problems(site: Path) -> list[str]:
    """Return every link that leads nowhere, every remote asset, and every error without a page."""
    documents = {path: read(path) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, document in documents.items():
        if path.name == "404.html":
            continue  # its links are absolute, for it is shown at any depth
        where = path.relative_to(site)
        found += [
            f"{where}: {link}" for link in document.links if _broken(link, path, site, documents)
        ]
        found += [
            f"{where}: loads {each}" for each in document.loaded if _remote_or_missing(each, path)
        ]
    return found + unresolved_codes(site) + undocumented(documents)


def _broken(link: str, page: Path, site: Path, documents: dict[Path, Document]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = _target(unquote(parts.path), page)
    if not target.is_relative_to(site) or not target.exists():
        return True
    anchor = unquote(parts.fragment)
    if not anchor or target.suffix != ".html" or anchor in MADE_BY_SCRIPTS:
        return False
    return anchor not in documents[target].anchors


def _target(path: str, page: Path) -> Path:
    if not path:
        return page
    target = Path(posixpath.normpath(page.parent / path))
    return target / "index.html" if target.is_dir() else target


def _remote_or_missing(each: str, page: Path) -> bool:
    parts = urlsplit(each)
    if parts.scheme == "data":
        return False
    return bool(parts.scheme or parts.netloc) or not _target(unquote(parts.path), page).exists()


def undocumented(documents: dict[Path, Document]) -> list[str]:
    """Return the public names of all wheels that no page of the reference has."""
    anchors = {anchor for each in documents.values() for anchor in each.anchors}
    # A name that several modules have stands on the page of one of them.
    last = {anchor.rpartition(".")[2] for anchor in anchors}
    return [
        f"no page of the reference has {name}"
        for name in sorted(public_names())
        if name.rpartition(".")[2] not in last and not name.startswith(ELSEWHERE)
    ]


def public_names() -> set[str]:
    """Return every public module, and what each has, from the snapshots of the public surface."""
    lines = [
        line
        for path in workspace.ROOT.glob("packages/*/api.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("sandboxio") and ": " in line
    ]
    modules = {line.partition(": ")[0] for line in lines if line.endswith(": module")}
    names = {line.partition(": ")[0] for line in lines}
    return {name for name in names if name.rpartition(".")[0] in modules} - modules


def unresolved_codes(site: Path) -> list[str]:
    """Return the errors whose ``url`` has no page on the site, path for path."""
    found: list[str] = []
    for name in errors.__all__:
        kind: object = getattr(errors, name)
        code: object = getattr(kind, "code", None)
        if isinstance(code, str):
            path = urlsplit(errors.DOCS_URL + code).path.strip("/")
            if not (site / path / "index.html").is_file():
                found.append(f"{name}: there is no page {path}")
    return found
