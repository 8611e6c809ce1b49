"""Clauses and tests belong together, and the page in the docs says the same."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import gen_clauses
import sandboxio_testing.suite as suite
from sandboxio_testing.clauses import AREAS, CLAUSES
from sandboxio_testing.suite import BackendContract, ContractBase
from sandboxio_testing.suite.properties import PropertyContract

SUITE = Path(suite.__file__).parent

AREA_CLASSES = [
    cls
    for cls in BackendContract.__mro__
    if issubclass(cls, ContractBase) and cls not in (ContractBase, BackendContract)
]

STANDARD_TESTS: dict[str, Any] = {
    f"{cls.__name__}.{name}": test
    for cls in [*AREA_CLASSES, PropertyContract]
    for name, test in vars(cls).items()
    if name.startswith("test_")
}


def clauses_of(test: Any) -> list[str]:
    """Return the clauses that a test is marked with."""
    return [mark.args[0] for mark in getattr(test, "pytestmark", []) if mark.name == "clause"]


def test_each_clause_has_a_test_in_the_contract() -> None:
    proven = {
        clause
        for name, test in STANDARD_TESTS.items()
        for clause in clauses_of(test)
        if not name.startswith(PropertyContract.__name__)
    }
    assert sorted(CLAUSES.keys() - proven) == [], "nothing proves these"


def test_each_test_proves_exactly_one_clause() -> None:
    assert len(STANDARD_TESTS) > 200
    marks = {name: clauses_of(test) for name, test in STANDARD_TESTS.items()}
    assert {name: found for name, found in marks.items() if len(found) != 1} == {}
    assert {found[0] for found in marks.values()} <= CLAUSES.keys()


def test_each_test_says_what_to_look_at() -> None:
    docs = {name: inspect.getdoc(test) or "" for name, test in STANDARD_TESTS.items()}
    good = re.compile(r"If this fails, [^\n]+\.(\n|$)")
    assert {name: doc for name, doc in docs.items() if not good.match(doc)} == {}


def test_each_clause_is_one_sentence_with_an_area() -> None:
    for clause in CLAUSES.values():
        assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", clause.id)
        assert re.fullmatch(r"[A-Z0-9`][^\n|]*\.", clause.text), clause.text
        assert re.fullmatch(r"\d+\.\d+", clause.since)
    assert {clause.area for clause in CLAUSES.values()} == set(AREAS)


def test_no_area_class_is_marked_as_a_whole() -> None:
    """`BackendContract` inherits from all of them: a mark of one would be a mark of all."""
    assert [cls for cls in AREA_CLASSES if "pytestmark" in vars(cls)] == []


def test_no_two_area_classes_define_one_name() -> None:
    """In the composed class, one would silently hide the other."""
    seen: dict[str, type] = {}
    for cls in [*AREA_CLASSES, ContractBase]:
        for name in vars(cls).keys() - {"__module__", "__doc__"}:
            if not name.startswith("__"):
                assert name not in seen, f"{name}: {cls.__name__} and {seen[name].__name__}"
                seen[name] = cls


def test_contract_has_every_area_class() -> None:
    pattern = re.compile(r"^class (\w+Contract)\(ContractBase\)", re.MULTILINE)
    found = {name for path in SUITE.glob("_*.py") for name in pattern.findall(path.read_text())}
    assert found == {cls.__name__ for cls in AREA_CLASSES}


def test_modules_are_short_and_not_collected_by_name() -> None:
    modules = sorted(SUITE.rglob("*.py"))
    assert len(modules) > 20
    assert [path.name for path in modules if len(path.read_text().splitlines()) > 400] == []
    assert [path.name for path in modules if re.match(r"test_|.*_test\.py$", path.name)] == []


def test_page_in_the_docs_is_what_the_clauses_say() -> None:
    assert gen_clauses.PAGE.read_text() == gen_clauses.page(), "run tools/gen_clauses.py"


def test_suite_exports_what_it_says() -> None:
    assert sorted(suite.__all__) == list(suite.__all__)
    assert [getattr(suite, name).__name__ for name in suite.__all__] == suite.__all__
