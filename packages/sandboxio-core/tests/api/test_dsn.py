"""The text form of a target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxio._api.dsn import Dsn, config_from_dsn, parse_dsn
from sandboxio._wiring.registry import Registry
from sandboxio.errors import BackendNotFound, ConfigurationError

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local://", Dsn("local", None, {})),
        ("docker://python:3.12-slim", Dsn("docker", "python:3.12-slim", {})),
        ("docker://localhost:5000/x:1", Dsn("docker", "localhost:5000/x:1", {})),
        ("docker://ghcr.io/a/b/c:v1.2", Dsn("docker", "ghcr.io/a/b/c:v1.2", {})),
        (f"docker://python@{DIGEST}", Dsn("docker", f"python@{DIGEST}", {})),
        (f"docker://python:3.12@{DIGEST}", Dsn("docker", f"python:3.12@{DIGEST}", {})),
        (
            f"docker://localhost:5000/x:1@{DIGEST}",
            Dsn("docker", f"localhost:5000/x:1@{DIGEST}", {}),
        ),
        ("local:///opt/a root", Dsn("local", "/opt/a root", {})),
        ("local:///odd:path@home", Dsn("local", "/odd:path@home", {})),
        ("e2b://code?timeout=60", Dsn("e2b", "code", {"timeout": "60"})),
        ("e2b://?timeout=60&runtime=", Dsn("e2b", None, {"timeout": "60", "runtime": ""})),
    ],
)
def test_parts_are_told_apart(text: str, expected: Dsn) -> None:
    assert parse_dsn(text) == expected


@pytest.mark.parametrize(
    "text", ["", "docker", "docker:", "docker:/x", "://x", "a b://x", "a-b://x", "1a://", "a.b://"]
)
def test_what_is_no_dsn_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a DSN") as caught:
        parse_dsn(text + "hunter2")
    assert "hunter2" not in str(caught.value)


def test_parameter_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'timeout' twice"):
        parse_dsn("local://?timeout=1&timeout=1")


@pytest.mark.parametrize("query", ["timeout", "&", "timeout=1&", "=&"])
def test_query_that_is_none_is_refused(query: str) -> None:
    registry = Registry()
    registry.register("mine", "package:Class")
    with pytest.raises(ConfigurationError):
        config_from_dsn(parse_dsn(f"mine://?{query}"), registry)


@pytest.mark.parametrize(
    "name",
    ["api_key", "apikey", "apiKey", "API-KEY", "token", "access_token", "accessToken", "secret",
     "password", "db_password", "key", "credentials", "E2B_API_KEY"],
)  # fmt: skip
def test_credential_in_the_query_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ConfigurationError, match="credential") as caught:
        parse_dsn(f"e2b://x?{name}=hunter2")
    assert "hunter2" not in str(caught.value)
    assert "environment variable" in caught.value.hint


@pytest.mark.parametrize(
    "template",
    ["user:hunter2@host/image", "user:hunter2@host", "user:hun/ter2@host", ":hunter2@host",
     f"user:hunter2@host/x@{DIGEST}"],
)  # fmt: skip
def test_password_in_the_template_is_refused_and_not_repeated(template: str) -> None:
    with pytest.raises(ConfigurationError, match="password") as caught:
        parse_dsn(f"docker://{template}")
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_dsn_or_refused(text: str) -> None:
    for candidate in (text, f"local://{text}", f"local://?{text}"):
        try:
            parsed = parse_dsn(candidate)
        except ConfigurationError:
            continue
        assert parsed.backend.isidentifier()


def registry() -> Registry:
    made = Registry()
    made.register("mine", "package.module:Class")
    return made


def test_configuration_has_the_values_of_the_dsn() -> None:
    config = config_from_dsn(parse_dsn("mine://template?timeout=2.5"), registry())
    assert (config.backend, config.template, config.timeout) == ("mine", "template", 2.5)


def test_unknown_parameter_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(ConfigurationError, match="no DSN parameter 'gpu'") as caught:
        config_from_dsn(parse_dsn("mine://?gpu=T4"), registry())
    assert "timeout" in caught.value.hint


@pytest.mark.parametrize("text", ["", "soon", "1h", "1,5"])
def test_parameter_of_another_type_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="of type float"):
        config_from_dsn(parse_dsn(f"mine://?timeout={text}"), registry())


def test_unknown_backend_names_those_that_are_there() -> None:
    with pytest.raises(BackendNotFound, match="no backend 'nope'") as caught:
        config_from_dsn(parse_dsn("nope://"), registry())
    assert "mine" in caught.value.message
