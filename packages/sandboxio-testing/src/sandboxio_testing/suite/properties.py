"""Clauses about data, with inputs that nobody thought of; needs hypothesis.

from sandboxio_testing.suite.properties import PropertyContract


class TestMineWithAnyInput(PropertyContract):
backend = MyBackend
witness = MyWitness
"""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._base import ContractBase
from ._clause_mark import needs
from ._surroundings import environment

__all__ = ["PropertyContract"]

EXAMPLES = settings(
    max_examples=25,
    deadline=None,  # how long a call takes is the backend's affair
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)

CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
TEXTS = st.text(CHARACTERS, max_size=80)
NAMES = st.text(
    st.characters(exclude_characters="\0=", codec="utf-8"), min_size=1, max_size=20
).map(lambda name: f"SBX{name}")
FILE_NAMES = st.text(
    st.characters(exclude_characters="\0/", codec="utf-8"), min_size=1, max_size=60
).filter(lambda name: name not in (".", ".."))


class PropertyContract(ContractBase):
    """Arguments, environment and files, each with any input."""

    # It compares what `random` is like before and after it has made an input, and takes what another
    # thread of the process did meanwhile, such as an SDK's, for its own.
    pytestmark: ClassVar[Any] = pytest.mark.filterwarnings(
        "ignore:Do not use the .random. module inside strategies"
    )

    @pytest.mark.clause("exec.arguments-are-data")
    @EXAMPLES
    @given(arguments=st.lists(TEXTS, min_size=1, max_size=4))
    async def test_any_argument_arrives(self, sandbox: AsyncSandbox, arguments: list[str]) -> None:
        """If this fails, arguments are quoted, split, expanded or normalised on their way."""
        result = await sandbox.run(self.probes.show_arguments(*arguments))
        assert result.stdout == "".join(f"{argument}\0" for argument in arguments)

    @pytest.mark.clause("env.is-data")
    @EXAMPLES
    @given(env=st.dictionaries(NAMES, TEXTS, min_size=1, max_size=4))
    async def test_any_environment_arrives(
        self, sandbox: AsyncSandbox, env: dict[str, str]
    ) -> None:
        """If this fails, names or values are quoted, split or expanded on their way."""
        found = await environment(sandbox, self.probes, env)
        assert {name: found.get(name) for name in env} == env

    @needs(Capability.FILESYSTEM)
    @pytest.mark.clause("files.odd-names")
    @EXAMPLES
    @given(file_name=FILE_NAMES, content=st.binary(max_size=3000))
    async def test_any_file_name_works(
        self, sandbox: AsyncSandbox, file_name: str, content: bytes
    ) -> None:
        """If this fails, names go through a shell, an option parser or a listing with lines."""
        home = f"any-{secrets.token_hex(4)}"
        path = f"{home}/{file_name}"
        await sandbox.files.mkdir(home)
        await sandbox.files.write(path, content)
        assert await sandbox.files.read(path) == content
        assert [item.path for item in await sandbox.files.ls(home)] == [path]
        await sandbox.files.remove(path)
        assert await sandbox.files.ls(home) == []
        await sandbox.files.remove(home)

    @needs(Capability.STDIN)
    @pytest.mark.clause("stdin.given")
    @EXAMPLES
    @given(data=st.binary(max_size=3000))
    async def test_any_stdin_arrives(self, sandbox: AsyncSandbox, data: bytes) -> None:
        """If this fails, look for text mode, for a terminal, or for an end that is not sent."""
        result = await sandbox.run(self.probes.copy_stdin(), stdin=data)
        assert result.stdout == data.decode("utf-8", "backslashreplace")
