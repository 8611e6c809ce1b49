"""As pytest fixtures of every scope."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandboxio import Sandbox, create_sync


@pytest.fixture(scope="session")
def of_session(wide_host: str) -> Iterator[Sandbox]:
    with create_sync(wide_host, timeout=1000) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def of_package(wide_host: str) -> Iterator[Sandbox]:
    with create_sync(wide_host, timeout=1000) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def of_module(wide_host: str) -> Iterator[Sandbox]:
    with create_sync(wide_host, timeout=1000) as sandbox:
        yield sandbox


@pytest.fixture(scope="class")
def of_class(wide_host: str) -> Iterator[Sandbox]:
    with create_sync(wide_host, timeout=1000) as sandbox:
        yield sandbox


@pytest.fixture
def of_function(wide_host: str) -> Iterator[Sandbox]:
    with create_sync(wide_host, timeout=1000) as sandbox:
        yield sandbox


class TestEveryScope:
    """Twice, so that the wider ones are used again, and the narrowest is made anew."""

    @pytest.mark.parametrize("turn", [0, 1])
    def test_each_works(
        self,
        of_session: Sandbox,
        of_package: Sandbox,
        of_module: Sandbox,
        of_class: Sandbox,
        of_function: Sandbox,
        turn: int,
    ) -> None:
        wider = (of_session, of_package, of_module, of_class)
        assert len({sandbox.id for sandbox in (*wider, of_function)}) == 5
        for sandbox in wider:
            assert sandbox.run(["sh", "-c", "ls -d turn-* 2>/dev/null | wc -l"]).stdout.strip() == (
                str(turn)
            )
            sandbox.files.write(f"turn-{turn}", "")
        assert of_function.files.ls() == []
        of_function.files.write("turn-x", "")

    async def test_beside_coroutines_that_are_tests(
        self, of_module: Sandbox, of_function: Sandbox
    ) -> None:
        assert of_module.run(["echo", "1"]).stdout == "1\n"
        assert of_function.run(["echo", "2"]).stdout == "2\n"
