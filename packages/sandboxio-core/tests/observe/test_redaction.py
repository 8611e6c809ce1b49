"""What is masked, and what is not."""

from __future__ import annotations

import json
import shlex
import warnings
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sandboxio._observe.redaction import (
    LEARNED,
    SHORTEST,
    SHORTEST_GUESSED,
    Redactor,
    credentials_in,
    is_credential_name,
)
from sandboxio._observe.streaming import StreamRedactor

# Few letters, so that secrets overlap, contain each other and stand side by side; some that mean
# something to a regular expression, the mask's own, and some that quoting changes.
LETTERS = st.sampled_from("ab.*#\\'\"\n é_")
SECRETS = st.lists(st.text(LETTERS, min_size=SHORTEST, max_size=9), min_size=1, max_size=5)


@st.composite
def texts_with_secrets(draw: st.DrawFn) -> tuple[list[str], str]:
    secrets = draw(SECRETS)
    # Whole secrets and pieces of them between other text, often without anything in between.
    cut = st.sampled_from(secrets).flatmap(
        lambda secret: st.integers(0, len(secret)).map(lambda at: secret[at:])
    )
    pieces = draw(st.lists(st.one_of(st.sampled_from(secrets), cut, st.text(LETTERS, max_size=4))))
    return secrets, "".join(pieces)


@given(texts_with_secrets())
def test_no_secret_is_left_in_a_text(case: tuple[list[str], str]) -> None:
    secrets, text = case
    masked = Redactor(secrets).text(text)
    assert [secret for secret in secrets if secret in masked] == []


@given(texts_with_secrets())
def test_masking_shows_no_part_of_a_secret_that_was_there(case: tuple[list[str], str]) -> None:
    """What is kept is what no occurrence of any secret covers, character by character."""
    secrets, text = case
    covered = [False] * len(text)
    redactor = Redactor(secrets)
    # What is taken out of the answer below must be ours.
    assume(redactor.patterns.mask not in text)
    for form in redactor.patterns.anywhere:
        at = text.find(form)
        while at >= 0:
            covered[at : at + len(form)] = [True] * len(form)
            at = text.find(form, at + 1)
    kept = "".join(char for char, hidden in zip(text, covered, strict=True) if not hidden)
    assert redactor.text(text).replace(redactor.patterns.mask, "") == kept


@given(st.lists(st.text("abc", min_size=SHORTEST), max_size=4), st.text("xyz*. \n"))
def test_text_without_a_secret_is_not_touched(secrets: list[str], text: str) -> None:
    assert Redactor(secrets).text(text) == text


@given(texts_with_secrets(), st.data())
def test_a_stream_is_masked_as_the_whole_text_is_wherever_it_is_cut(
    case: tuple[list[str], str], data: st.DataObject
) -> None:
    secrets, text = case
    # Secrets of three characters are masked where they stand alone, which the next chunk decides.
    secrets = [*secrets, *data.draw(st.lists(st.text("ab_.", min_size=3, max_size=3), max_size=2))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    redactor = Redactor(secrets)
    stream = StreamRedactor(redactor)
    handed_out = ""
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        handed_out += stream.feed(text[begin:end])
        assert [secret for secret in secrets if len(secret) > 3 and secret in handed_out] == []
    assert handed_out + stream.close() == redactor.text(text)


def test_a_stream_takes_no_end_of_a_piece_for_the_end_of_a_word() -> None:
    redactor = Redactor(["_.secret.", "._."])
    text = "_.secret._._secret"
    stream = StreamRedactor(redactor)
    handed_out = stream.feed(text[:11]) + stream.feed(text[11:]) + stream.close()
    assert handed_out == redactor.text(text)


def test_a_stream_holds_back_no_more_than_what_may_become_a_secret() -> None:
    stream = StreamRedactor(Redactor(["hunter2!"]))
    assert stream.feed("nothing of it") == "nothing of it"
    assert stream.feed("password? hunt") == "password? "
    assert stream.feed("ing") == "hunting"
    assert stream.close() == ""


def test_a_stream_of_nothing_but_overlapping_secrets_stays_small() -> None:
    stream = StreamRedactor(Redactor(["aaaa"]))
    out = [stream.feed("a" * 1000) for _ in range(100)]
    assert len(stream._held) < 4
    assert "".join(out) + stream.close() == "***"


@pytest.mark.parametrize(
    ("secrets", "text", "masked"),
    [
        (["hunter2!"], "the password is hunter2!", "the password is ***"),
        (["a.c+(x)"], "a.c+(x) and abc+(x)", "*** and abc+(x)"),
        (["\\d+$^[a]"], "\\d+$^[a]123", "***123"),
        # The longest first, so that nothing of it is left behind the shorter one.
        (["sk-1234", "sk-1234-5678"], "sk-1234-5678", "***"),
        # Two that overlap: no part of either remains.
        (["ABCDE", "DEFGH"], "xABCDEFGHy", "x***y"),
        (["line one\nline two long"], "only line two long here", "only *** here"),
        (["a*b**c"], "a*b**c", "***"),
        # Masks that would make up a secret with what stands beside them.
        (["***!"], "***!", "###"),
        (["abcd", "xyz*"], "xyzabcd", "xyz###"),
        (["abcd", "*xyz", "#123"], "abcdxyz", "███xyz"),
    ],
)
def test_examples(secrets: list[str], text: str, masked: str) -> None:
    assert Redactor(secrets).text(text) == masked


@pytest.mark.parametrize(
    "value", ["it's $HOME", 'say "hi"\n', "a&b=c d/é", "tab\there\\", "\udcff raw"]
)
def test_a_secret_is_masked_in_the_forms_that_quoting_gives_it(value: str) -> None:
    redactor = Redactor([value])
    for form in (
        repr(value),
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        shlex.quote(value),
        quote(value, safe="", errors="surrogatepass"),
    ):
        text = redactor.text(f"before {form} after")
        assert "***" in text
        assert form.strip("'\"") not in text


def test_a_value_of_three_characters_is_masked_alone_and_mangles_no_word() -> None:
    redactor = Redactor(["tok"])
    assert redactor.text("--key=tok tok, 'tok'") == "--key=*** ***, '***'"
    assert redactor.text("token stoke_tok tok_") == "token stoke_tok tok_"


def test_values_of_one_or_two_characters_are_not_masked() -> None:
    assert Redactor(["in", "a"]).text("there is a thing in here") == "there is a thing in here"


def test_short_secrets_are_warned_of_by_name_and_not_by_value() -> None:
    with pytest.warns(UserWarning, match="PIN") as caught:
        Redactor.for_environment({"PIN": "123", "LONG": "long enough"}, {"PIN", "LONG"})
    text = str(caught[0].message)
    assert "123" not in text
    assert "LONG" not in text


def test_empty_secrets_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Redactor.for_environment({"EMPTY": ""}, {"EMPTY"}).text("text") == "text"


@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "OPENAI_API_KEY",
        "PGPASSWORD",
        "DB_PASSWORD",
        "TOKEN",
        "GITHUB_TOKEN",
        "secret",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PWD",
        "REDIS_AUTH",
        "SENTRY_DSN",
        "CREDENTIALS",
        "NPMTOKEN",
    ],
)
def test_names_of_credentials(name: str) -> None:
    assert is_credential_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "AUTHOR",
        "PWD",
        "OLDPWD",
        "PATH",
        "KEYBOARD",
        "MONKEY",
        "MAX_TOKENS",
        "SSH_AUTH_SOCK",
        "PASSAGE",
        "TOKENIZERS_PARALLELISM",
        "COMPASS",
        "HOME",
    ],
)
def test_names_of_no_credentials(name: str) -> None:
    assert not is_credential_name(name)


@pytest.mark.parametrize(
    "value",
    [
        "sk-" + "a1B2" * 6,
        "sk-proj-abcdef123456",
        "sk_live_abcdef123456",
        "ghp_" + "a1B2" * 9,
        "github_pat_11ABC",
        "glpat-abcdefgh",
        "xoxb-123-456",
        "AKIA" + "A1B2" * 4,
        "eyJhbGciOiJI.eyJzdWIiOiIx.sig",
        "Bearer abcdef123456",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n",
        "postgres://user:pa55word@host/db",
    ],
)
def test_a_value_that_looks_like_a_credential_is_masked_under_any_name(value: str) -> None:
    assert credentials_in({"HARMLESS": value, "OTHER": "text"}).keys() == {"HARMLESS"}
    redactor = Redactor()
    redactor.learn({"HARMLESS": value})
    assert redactor.text(f"got {value}!") == "got ***!"


def test_the_password_within_an_address_is_masked_by_itself() -> None:
    redactor = Redactor()
    redactor.learn({"DATABASE": "postgres://user:pa55word@host/db"})
    assert redactor.text("login with pa55word failed") == "login with *** failed"


def test_a_short_value_of_a_variable_that_looks_like_a_credential_mangles_no_word() -> None:
    redactor = Redactor()
    redactor.learn({"AUTHOR": "in", "DB_PASSWORD": "test", "API_KEY": "no"})
    assert redactor.text("pytest in main, testing") == "pytest in main, testing"
    assert redactor.text("mysql --password=test") == "mysql --password=***"


@given(st.text("abcdefgh", min_size=SHORTEST_GUESSED, max_size=12))
def test_a_longer_one_is_masked_everywhere(value: str) -> None:
    redactor = Redactor()
    redactor.learn({"MY_TOKEN": value})
    assert value not in redactor.text(f"x{value}y {value}")


def test_what_calls_bring_is_remembered_within_a_bound_and_the_latest_stays() -> None:
    redactor = Redactor(["from the start"])
    for number in range(LEARNED + 50):
        redactor.learn({"TOKEN": f"token-number-{number:05}"})
    assert redactor.text(f"token-number-{LEARNED + 49:05}") == "***"
    assert redactor.text("token-number-00000") == "token-number-00000"
    assert redactor.text("from the start") == "***"


@given(st.text(min_size=SHORTEST), st.text(), st.text())
def test_any_secret_is_masked_in_any_text(secret: str, before: str, after: str) -> None:
    assume(secret not in before + after)
    redactor = Redactor([secret])
    assert secret not in redactor.text(before + secret + after)
    assert redactor.finds(before + secret + after)
