"""What the author of a backend supplies beside it: somebody who knows what really is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["ProviderFacts", "Unanswerable", "Witness"]


class Unanswerable(Exception):
    """This witness cannot tell that; the clause that asked is skipped, by name and visibly.

    Example:
        >>> raise Unanswerable("the provider does not list processes")
        Traceback (most recent call last):
        sandboxio_testing.suite._witness.Unanswerable: the provider does not list processes
    """


@dataclass(frozen=True, kw_only=True)
class ProviderFacts:
    """What the provider itself says of one sandbox. ``None`` is "it does not tell".

    Attributes:
        network: ``"none"`` if the sandbox has no network but a loopback of its own, ``"own"`` if
            it has a network of its own, ``"host"`` if it shares the host's.
        privileged: Whether it was given more rights than an ordinary sandbox: privileged mode, a
            kernel capability that is not in the default set, the host's process or user ids.
        host_paths: Directories and sockets of the host that can be written from inside, or that
            hold a user's data; empty if there are none.
        memory_mb: The memory cap in force.
        processes: The process cap in force.
        cpu: Cores.
        labels: The caller's metadata as the provider stores it.
        description: All that the provider shows of the sandbox to whoever may list it, as text;
            secrets are looked for in it.
    """

    network: Literal["none", "own", "host"] | None = None
    privileged: bool | None = None
    host_paths: tuple[str, ...] | None = None
    memory_mb: float | None = None
    processes: int | None = None
    cpu: float | None = None
    labels: Mapping[str, str] | None = None
    description: str | None = None


class Witness(Protocol):
    """Answers about the sandboxes of one backend without asking that backend.

    For Docker it asks the Engine, for a local sandbox ``/proc``, for a cloud its HTTP API. It
    knows only of sandboxes that this very process made, so that runs do not disturb each other.
    Its methods may block: the suite calls them in a worker thread.

    Example:
        >>> class EngineWitness:
        ...     def sandboxes(self) -> list[str]:
        ...         return [item.id for item in docker_client.containers.list()]
    """

    def sandboxes(self) -> Collection[str]:
        """Return the ids of all sandboxes that exist now, as `AsyncSandbox.id` has them."""
        ...

    def processes(self, sandbox_id: str, marker: str) -> int:
        """Count the living processes of a sandbox whose command line contains `marker`."""
        ...

    def facts(self, sandbox_id: str) -> ProviderFacts:
        """Return what the provider says of a sandbox that exists."""
        ...

    def destroy(self, sandbox_id: str) -> None:
        """Destroy a sandbox behind the backend's back; does nothing if it is gone already."""
        ...
