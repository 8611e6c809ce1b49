"""Each error code has a page, a program that really raises it, and an address that leads there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

import gen_errors
from sandboxio.errors import DOCS_URL

CATALOG = gen_errors.catalog()


def test_every_class_with_a_code_is_in_the_catalog() -> None:
    import sandboxio

    kinds = [getattr(sandboxio, name) for name in sandboxio.__all__]
    codes = {kind.code for kind in kinds if isinstance(kind, type) and hasattr(kind, "code")}
    assert codes - {None} == CATALOG.keys()


def test_there_is_one_example_for_each_code() -> None:
    examples = {path.stem for path in gen_errors.EXAMPLES.glob("*.py")}
    assert examples == CATALOG.keys()


def test_there_is_one_page_for_each_code() -> None:
    pages = {path.stem for path in gen_errors.FOLDER.glob("SBX_*.md")}
    assert pages == CATALOG.keys()


@pytest.mark.slow
@pytest.mark.parametrize("code", CATALOG)
def test_example_raises_its_error_and_the_page_says_what_it_says(code: str) -> None:
    seen = gen_errors.provoke(code)
    page = gen_errors.FOLDER / f"{code}.md"
    assert page.read_text(encoding="utf-8") == gen_errors.page(code, seen), (
        "python3 tools/dev.py docs --write"
    )


@pytest.mark.parametrize("code", CATALOG)
def test_page_names_causes_and_a_fix(code: str) -> None:
    text = (gen_errors.FOLDER / f"{code}.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Most likely causes", "## Fix", "## A program that provokes it"]


def test_list_of_codes_is_current() -> None:
    assert (gen_errors.FOLDER / "index.md").read_text(encoding="utf-8") == gen_errors.index()


def test_addresses_of_errors_are_below_the_site_where_their_pages_are() -> None:
    import gen_llms

    # The built site is looked at by the docs verb; this is that both speak of the same one.
    assert DOCS_URL.startswith(gen_llms.site_url())
    assert urlsplit(DOCS_URL).path == "/errors/"


def test_an_example_that_raises_something_else_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gen_errors, "EXAMPLES", tmp_path)
    tmp_path.joinpath("SBX_E1302.py").write_text("raise TimeoutError('[SBX_E1302] no')")
    with pytest.raises(ValueError, match="and not with ExecutionTimeout"):
        gen_errors.provoke("SBX_E1302")
