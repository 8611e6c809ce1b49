"""The engine's words become the error that they mean; texts as engines and registries say them."""

from __future__ import annotations

import pytest

from sandboxio.errors import (
    AuthError,
    CapabilityNotSupported,
    ConfigurationError,
    CreationError,
    DiskFull,
    ProviderError,
    RateLimitError,
    SandboxError,
)
from sandboxio_docker._errors import ImageMissing, refused


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "No such image: nothing:latest", ImageMissing),
        (404, "manifest for 127.0.0.1:5000/x:1 not found: manifest unknown: x", CreationError),
        (404, "pull access denied for x, repository does not exist or may require", AuthError),
        (500, 'Head "http://127.0.0.1:5000/v2/": no basic auth credentials', AuthError),
        (500, "unauthorized: authentication required", AuthError),
        (404, "no matching manifest for linux/amd64 in the manifest list", CapabilityNotSupported),
        (500, "write /var/lib/docker/tmp/x: no space left on device", DiskFull),
        (0, "failed to register layer: write /a: no space left on device", DiskFull),
        (429, "toomanyrequests: You have reached your pull rate limit", RateLimitError),
        (500, 'Get "http://127.0.0.1:1/v2/": dial tcp: connection refused', CreationError),
        (400, "unknown or invalid runtime name: nonsense", ConfigurationError),
        (400, "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs", ConfigurationError),
        (400, "Minimum memory limit allowed is 6MB", ConfigurationError),
        (400, "invalid reference format: repository name must be lowercase", ConfigurationError),
        (500, "something new", ProviderError),
    ],
)
def test_refusal_has_the_error_that_it_means(
    status: int, text: str, kind: type[SandboxError]
) -> None:
    error = refused("Pulling", status, text)
    assert type(error) is kind
    assert text.split(":")[0][:20] in error.message
    assert error.hint


def test_long_text_of_the_engine_is_cut() -> None:
    assert len(refused("x", 500, "y" * 100_000).message) < 1000


def test_kinds_of_failing_pulls_are_all_different() -> None:
    texts = ("manifest unknown", "unauthorized", "no matching manifest", "no space left on device")
    assert len({type(refused("x", 500, text)) for text in texts}) == len(texts)
