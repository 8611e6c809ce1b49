"""What has to be there before a sandbox can be made, and may take longer than that."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..errors import CreationError
from ._driver import ProvisionRequest

__all__ = ["SupportsPrepare", "Unprepared"]


class Unprepared(CreationError):
    """Something that every such sandbox needs is missing, an image for instance.

    Raised by `BackendDriver.provision` after all else was checked and before anything was created. If
    the driver is a `SupportsPrepare`, the engine has it prepared and asks once more; a caller only
    sees this error where that did not help.
    """

    default_retryable = False


@runtime_checkable
class SupportsPrepare(Protocol):
    """A `BackendDriver` that can bring what was missing.

    The time that this takes is not taken out of ``create(timeout=...)``: pulling an image once must
    not need a timeout that is too long for every other sandbox.
    """

    async def prepare(self, request: ProvisionRequest) -> None:
        """Bring it, within a bound of the driver's own.

        Progress is logged, see `Progress`. Cancelled, it may go on or not; it has created nothing
        that somebody would have to remove.

        Raises:
            CreateTimeout: It was not there in time.
            CreationError: It cannot be had.
        """
        ...
