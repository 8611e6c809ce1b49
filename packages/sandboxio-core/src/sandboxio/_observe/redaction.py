"""Masking of secret values, once, before anything leaves for a message, a record or a span."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from urllib.parse import quote

__all__ = ["SHORTEST", "Patterns", "Redactor", "credentials_in", "is_credential_name"]

SHORTEST = 4
"""Characters from which on a secret is masked wherever it stands, inside of longer words too."""

SHORTEST_TOKEN = 3
"""Characters from which on a secret is masked where it stands alone. Shorter ones are not masked:
they would mangle unrelated text, and hide nothing that cannot be guessed."""

SHORTEST_GUESSED = 8
"""The same as `SHORTEST`, for the value of a variable that only looks like a credential:
``DB_PASSWORD=test`` must not turn ``pytest`` into something else."""

SHORTEST_LINE = 8
"""Characters from which on one line of a secret of several lines is masked by itself."""

LEARNED = 256
"""Values of single calls that are remembered for the rest of a sandbox's life; the oldest go first."""

_CREDENTIAL_NAME = re.compile(
    r"(PASSWORD|PASSWD|SECRET|TOKEN|APIKEY|CREDENTIALS?)(_|$)"
    r"|(^|_)(API_?KEY|KEY|PASS|PRIVATE|DSN|COOKIE)(_|$)"
    r"|_(PWD|AUTH)$",
    re.IGNORECASE,
)

_CREDENTIAL_VALUE = re.compile(
    r"(sk|rk|pk)[-_](live|test|proj|ant|or)[-_]\w|sk-\w{16}|gh[opsur]_\w{16}|github_pat_\w|glpat-\w"
    r"|xox[abeprs]-\w|(AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{20}|ya29\.\w|hf_\w{16}|npm_\w{16}|pypi-\w{16}"
    r"|e2b_\w{16}|eyJ[\w-]{8,}\.eyJ[\w-]+\.|(Bearer|Basic)\s+\S{8}|-----BEGIN [A-Z ]*PRIVATE KEY"
)

_PASSWORD_IN_URL = re.compile(r"\w://[^\s/:@]*:([^\s/@]+)@")


def is_credential_name(name: str) -> bool:
    """Say whether an environment variable of that name usually holds a credential."""
    return _CREDENTIAL_NAME.search(name) is not None


def credentials_in(env: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the variables that look like a credential, by name or value, with what to mask."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in env.items():
        if password := _PASSWORD_IN_URL.search(value):
            found[name] = (value, password[1])
        elif is_credential_name(name) or _CREDENTIAL_VALUE.match(value):
            found[name] = (value,)
    return found


class Redactor:
    """Replaces secret values in text; there is one for each sandbox.

    Where occurrences overlap, all that they cover is replaced, so that no part of any of them
    remains.

    Example:
        >>> Redactor(["hunter2!"]).text("the password is hunter2!")
        'the password is ***'
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = dict.fromkeys(values)
        self._guessed: dict[str, None] = {}
        self._compiled: Patterns | None = None

    @classmethod
    def for_environment(
        cls, env: Mapping[str, str], secret_names: Iterable[str], extra: Iterable[str] = ()
    ) -> Redactor:
        """Mask the secrets of an environment, and what looks like a credential there."""
        secret = set(secret_names)
        short = sorted(name for name in secret if 0 < len(env.get(name, "")) < SHORTEST)
        if short:
            warnings.warn(
                f"These secrets have fewer than {SHORTEST} characters, and cannot be masked "
                f"inside of other text: {short}",
                stacklevel=4,
            )
        redactor = cls([*(env[name] for name in secret if name in env), *extra])
        redactor.learn(env)
        return redactor

    def learn(self, env: Mapping[str, str]) -> None:
        """Mask from now on what looks like a credential in an environment."""
        for values in credentials_in(env).values():
            for value in values:
                if len(value) < SHORTEST or value in self._values:
                    continue
                if value not in self._guessed:
                    self._compiled = None
                # The latest goes last, so that the one that goes first is the oldest.
                self._guessed.pop(value, None)
                self._guessed[value] = None
        while len(self._guessed) > LEARNED:
            del self._guessed[next(iter(self._guessed))]

    @property
    def patterns(self) -> Patterns:
        """What is looked for, compiled when it is first needed."""
        if self._compiled is None:
            self._compiled = Patterns(self._values, self._guessed)
        return self._compiled

    def text(self, text: str) -> str:
        """Return `text` without any secret."""
        patterns = self.patterns
        if not patterns.longest:
            return text
        pieces: list[str] = []
        at = 0
        for start, end in patterns.spans(text):
            pieces += (text[at:start], patterns.mask)
            at = end
        return "".join((*pieces, text[at:])) if pieces else text

    def finds(self, text: str) -> bool:
        """Whether `text` holds a secret."""
        return next(self.patterns.spans(text), None) is not None


class Patterns:
    """The forms in which a set of secrets may appear, and where they do in a text.

    Attributes:
        mask: What replaces them; ``***`` unless it could make up a secret with what stands beside it.
        anywhere: Forms that are masked wherever they stand.
        alone: Forms that are masked where no letter, digit or underscore adjoins them.
        longest: Characters of the longest form; 0 if there is none.
    """

    def __init__(self, values: Iterable[str], guessed: Iterable[str]) -> None:
        anywhere = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        alone = {value for value in values if SHORTEST_TOKEN <= len(value) < SHORTEST}
        for value in guessed:
            if len(value) >= SHORTEST_GUESSED:
                anywhere.update(_forms(value))
            else:
                alone.add(value)
        self.anywhere = frozenset(anywhere)
        self.alone = frozenset(alone - anywhere)
        self.longest = max(map(len, anywhere | alone), default=0)
        self.mask = _mask_for(anywhere | alone)
        # Longest first: where two begin at the same place, the shorter one is within the longer.
        alternatives = [re.escape(form) for form in sorted(anywhere, key=len, reverse=True)]
        alternatives += [rf"(?<!\w){re.escape(form)}(?!\w)" for form in sorted(alone)]
        # A lookahead consumes nothing, so that occurrences that overlap are found, all of them.
        self._search = re.compile(f"(?=({'|'.join(alternatives)}))") if alternatives else None

    def spans(
        self, text: str, start: int = 0, stop: int | None = None, covered: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Yield the ranges of `text` that secrets cover, joined where they overlap.

        Only secrets that begin from `start` on and before `stop` count. `covered` is the end of a
        range that began before `start`.
        """
        if self._search is None:
            return
        begin, end = (start, covered) if covered > start else (-1, -1)
        for match in self._search.finditer(text, start):
            first, last = match.span(1)
            if stop is not None and first >= stop:
                break
            if first < end:
                end = max(end, last)
                continue
            if begin >= 0:
                yield begin, end
            begin, end = first, last
        if begin >= 0:
            yield begin, end


def _forms(value: str) -> Iterator[str]:
    """Yield a secret as it is, line by line, and as quoting makes it look elsewhere."""
    yield value
    lines = {line.strip() for line in value.splitlines()}
    yield from (line for line in lines if len(line) >= SHORTEST_LINE)
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="surrogatepass")
    if "'" in value:
        yield shlex.quote(value)[1:-1]


def _mask_for(forms: Iterable[str]) -> str:
    """Return three characters that cannot make up a secret with what stands beside them.

    They are more of their kind in a row than any secret has, and at neither end of one.
    """
    known = list(forms)
    for char in chain("*#", map(chr, range(0x2588, 0x110000))):
        if not any(char in (form[0], form[-1]) or 3 * char in form for form in known):
            return 3 * char
    raise AssertionError("there are more characters than secrets")
