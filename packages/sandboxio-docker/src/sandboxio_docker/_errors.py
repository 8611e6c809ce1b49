"""What the engine's refusals mean in sandboxio's terms: one table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sandboxio.errors import (
    AuthError,
    CapabilityNotSupported,
    ConfigurationError,
    CreationError,
    DiskFull,
    ProviderError,
    RateLimitError,
    SandboxError,
    SandboxUnreachable,
)
from sandboxio.spi import Unprepared

from ._endpoint import Endpoint

__all__ = ["CAPS_HINT", "ImageMissing", "refused", "unreachable", "wants_tls"]

CAPS_HINT = (
    "A rootless engine needs cgroup delegation: https://docs.docker.com/engine/security/rootless/"
)
"""How an engine comes to enforce the caps that it does not."""

MAX_TEXT = 500
"""Characters of the engine's own words that an error repeats."""


class ImageMissing(Unprepared):
    """The engine does not have the image; it was not asked to pull it."""

    default_hint = "Pull it with docker pull, or let DockerConfig(pull='missing') do so."


@dataclass(frozen=True)
class Rule:
    """A refusal, recognised by its words: the engine's status codes say too little."""

    words: re.Pattern[str]
    make: Callable[[str], SandboxError]


def _rule(words: str, make: Callable[[str], SandboxError]) -> Rule:
    return Rule(re.compile(words, re.IGNORECASE), make)


TABLE: tuple[Rule, ...] = (
    _rule(
        r"no space left on device|disk quota exceeded",
        lambda text: DiskFull(
            f"The disk of the Docker Engine is full: {text}",
            limit="disk of the engine",
            hint="Make room on the engine's machine, for example with: docker system prune",
        ),
    ),
    _rule(
        r"unknown or invalid runtime name|unknown runtime|invalid runtime name",
        lambda text: ConfigurationError(
            f"The Docker Engine does not have this runtime: {text}",
            hint="See what it has with: docker info --format '{{json .Runtimes}}'",
        ),
    ),
    _rule(
        r"range of cpus is from|minimum memory limit|invalid value .* for (cpu|memory)",
        lambda text: ConfigurationError(
            f"The Docker Engine cannot apply these resources: {text}",
            hint="Change resources=Resources(...) to what this engine has.",
        ),
    ),
    _rule(
        r"invalid reference format|repository name must be",
        lambda text: ConfigurationError(
            f"That is not the name of an image: {text}",
            hint="For example docker://python:3.12-slim",
        ),
    ),
    _rule(
        r"no matching manifest|does not match the (specified|detected) platform"
        r"|exec format error|cannot be used on this platform|no match for platform",
        lambda text: CapabilityNotSupported(
            f"The image has no build for the platform of this Docker Engine: {text}",
            hint="Use an image that is built for it, or set DockerConfig(platform=...).",
        ),
    ),
    _rule(
        r"toomanyrequests|rate limit",
        lambda text: RateLimitError(f"The registry throttles pulls: {text}"),
    ),
    _rule(
        r"pull access denied|unauthorized|authentication required|no basic auth credentials"
        r"|denied: requested access|authorization failed|insufficient_scope",
        lambda text: AuthError(
            f"The registry wants a login for this image, or does not have it: {text}",
            hint="Log in with docker login, and check the image's name.",
        ),
    ),
    _rule(
        r"manifest unknown|manifest for .* not found|name unknown|repository .* not found"
        r"|repository name not known|not found: does not exist",
        lambda text: CreationError(
            f"The registry does not have this image: {text}",
            hint="Check the image's name and tag.",
            retryable=False,
        ),
    ),
    _rule(
        r"no such image",
        lambda text: ImageMissing(f"The Docker Engine does not have the image: {text}"),
    ),
    _rule(
        r"dial tcp|connection refused|no such host|i/o timeout|tls handshake|x509"
        r"|server gave http response|request canceled while waiting",
        lambda text: CreationError(
            f"The registry of the image does not answer: {text}",
            hint="Check the image's name, and the network of the engine's machine.",
            retryable=True,
        ),
    ),
)


def refused(what: str, status: int, text: str) -> SandboxError:
    """Return the error for an answer of the engine that is not a success."""
    words = " ".join(text.split())[:MAX_TEXT]
    for rule in TABLE:
        if rule.words.search(text):
            return rule.make(words)
    return ProviderError(f"{what}: the Docker Engine answered {status}: {words}")


def wants_tls(text: str) -> bool:
    """Say whether an engine complains that it was spoken to in the clear."""
    return "HTTP request to an HTTPS server" in text


def unreachable(endpoint: Endpoint, error: BaseException) -> SandboxUnreachable:
    """Return the error for an engine that gave no answer; says which, and where that came from."""
    reason = _root(error)
    hint = "Start the engine, or point DOCKER_HOST or the Docker context to one that runs."
    if isinstance(reason, PermissionError):
        hint = "Let this user use the socket, for example: sudo usermod -aG docker $USER"
    elif wants_tls(str(error)):
        hint = "Set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder of its certificates."
    elif isinstance(reason, TimeoutError) or "timed out" in str(error).lower():
        hint = "The engine is there and does not answer: look at its log, or restart it."
    detail = " ".join(str(reason).split())[:MAX_TEXT] or type(reason).__name__
    return SandboxUnreachable(
        f"The Docker Engine at {endpoint} does not answer: {detail}", hint=hint
    )


def _root(error: BaseException) -> BaseException:
    """Find the operating system's deepest error below what the SDK's layers made of it."""
    seen: set[int] = set()
    todo: list[object] = [error]
    found = error
    while todo:
        item = todo.pop()
        if not isinstance(item, BaseException) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, OSError) and type(item).__module__ == "builtins":
            found = item
        todo += [*item.args, item.__cause__, item.__context__, getattr(item, "reason", None)]
    return found
