"""What is deprecated is told, lives long enough, and is gone when its time has come."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

import release_deprecations
import workspace
from sandboxio._deprecation import Notice

NOTICE = Notice(what="create(region=)", since="0.3.0", removal="0.5.0", use="create(template=)")
CHANGELOG = """# Changelog

## 0.3.0 (2027-01-10)

### Added

- `old` in another section.

### Deprecated

- `old` goes in 0.5.0: use `new`. So does `create(region=)`.
"""


def wheel(folder: Path, source: str, changelog: str = CHANGELOG) -> Path:
    (folder / "src" / "wheel").mkdir(parents=True)
    (folder / "changes").mkdir()
    (folder / "src" / "wheel" / "module.py").write_text(source)
    (folder / "CHANGELOG.md").write_text(changelog)
    return folder


def decorated(since: str = "0.3.0", removal: str = "0.5.0", what: str = "old") -> str:
    text = f"`{what}` is deprecated since {since} and goes in {removal}: use `new`."
    return f'@deprecated("{text}")\ndef old(): ...\n'


@pytest.mark.parametrize("member", workspace.members(), ids=lambda member: member.name)
def test_nothing_is_kept_longer_or_dropped_sooner_than_announced(
    member: workspace.Member,
) -> None:
    """This fails in the commit that sets the version which was announced as the end of something."""
    assert release_deprecations.broken_rules(member.folder, member.version) == []


def test_text_of_a_notice_is_the_wording_of_the_decorators() -> None:
    match = release_deprecations.WORDING.fullmatch(NOTICE.text)
    assert match is not None
    assert match.groupdict() == vars(NOTICE)


def test_decorators_and_notices_are_found(tmp_path: Path) -> None:
    source = decorated() + f"OLD = {NOTICE!r}\n"
    found, problems = release_deprecations.find(wheel(tmp_path, source))
    assert problems == []
    assert [(entry.what, entry.since, entry.removal) for entry in found] == [
        ("old", "0.3.0", "0.5.0"),
        ("create(region=)", "0.3.0", "0.5.0"),
    ]


@pytest.mark.parametrize("now", ["0.3.0", "0.4.0", "0.4.9"])
def test_deprecation_in_its_window_is_in_order(tmp_path: Path, now: str) -> None:
    assert release_deprecations.broken_rules(wheel(tmp_path, decorated()), now) == []


@pytest.mark.parametrize("now", ["0.5.0", "0.5.1", "0.10.0", "1.0.0"])
def test_version_that_removes_it_is_reached(tmp_path: Path, now: str) -> None:
    (problem,) = release_deprecations.broken_rules(wheel(tmp_path, decorated()), now)
    assert f"{now} has to do without `old`" in problem


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (decorated(removal="0.3.1"), "no release that may break"),
        (decorated(removal="1.1.0"), "no release that may break"),
        (decorated(since="0.3.0", removal="0.3.0"), "no minor release between"),
        (decorated(what="young"), "no changelog tells that `young`"),
        ('@deprecated("use new")\ndef old(): ...\n', "not a literal"),
        ("@deprecated(TEXT)\ndef old(): ...\n", "not a literal"),
        ("OLD = Notice(what=NAME, since='0.3.0', removal='0.5.0', use='new')", "not a literal"),
    ],
)
def test_rule_that_is_broken_is_named(tmp_path: Path, source: str, problem: str) -> None:
    problems = release_deprecations.broken_rules(wheel(tmp_path, source), "0.2.0")
    assert any(problem in line for line in problems), problems


def test_fragment_tells_of_what_is_not_released_yet(tmp_path: Path) -> None:
    folder = wheel(tmp_path, decorated(since="0.4.0", removal="0.6.0"), "# Changelog\n")
    assert len(release_deprecations.broken_rules(folder, "0.3.0")) == 1
    (folder / "changes" / "+old.deprecated.md").write_text("`old` goes: use `new`.")
    assert release_deprecations.broken_rules(folder, "0.3.0") == []


@pytest.mark.parametrize(("today", "early"), [(date(2027, 4, 9), True), (date(2027, 4, 10), False)])
def test_ninety_days_pass_before_it_goes(tmp_path: Path, today: date, *, early: bool) -> None:
    before = wheel(tmp_path / "before", decorated())
    after = wheel(tmp_path / "after", "")
    assert bool(release_deprecations.removed_too_early(before, after, today)) is early
    assert release_deprecations.removed_too_early(before, before, today) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checker", "told"),
    [
        (["mypy", "--strict", "--enable-error-code=deprecated"], "[deprecated]"),
        (["pyright", f"--pythonpath={sys.executable}"], "reportDeprecated"),
    ],
    ids=["mypy", "pyright"],
)
def test_type_checkers_tell_who_uses_it(tmp_path: Path, checker: list[str], told: str) -> None:
    """The decorator comes to them through a module of ours, and has to be known all the same."""
    program = tmp_path / "program.py"
    program.write_text(
        "# pyright: strict, reportDeprecated=error, reportPrivateUsage=false\n"
        f"from sandboxio._deprecation import deprecated\n{decorated()}old()\n".replace(
            "def old():", "def old() -> None:"
        )
    )
    tool = Path(sys.executable).parent / checker[0]
    answer = subprocess.run(
        [tool, *checker[1:], program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    complaints = [line for line in answer.stdout.splitlines() if "error:" in line]
    assert len(complaints) == 1, answer.stdout + answer.stderr
    assert told in answer.stdout
    assert "use `new`" in answer.stdout
