"""The typed configuration of this backend."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxio.models import BackendConfig

__all__ = ["LocalConfig"]


@dataclass(frozen=True, kw_only=True)
class LocalConfig(BackendConfig):
    """Configuration of one sandbox of the local backend.

    ``template`` is the absolute path of a root file system to use instead of this host's system
    directories. It must hold Python 3.8 or newer; nothing in it is changed.

    Attributes:
        read_only: Directories of this host that code in the sandbox may read, as a mapping of
            absolute paths inside (below ``/home``, ``/mnt``, ``/opt``, ``/root`` or ``/srv``) to
            absolute paths on this host. Nothing can be written there, and ``policy.notes`` names
            them. Bind no directory that holds secrets or sockets: the code inside is not yours.

    Example:
        >>> from sandboxio_local import LocalConfig
        >>> LocalConfig(template="/srv/rootfs", timeout=60).backend
        'local'
    """

    read_only: dict[str, str] | None = None

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return "local"
