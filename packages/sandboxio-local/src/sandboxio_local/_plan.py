"""From a request to everything that a warden needs, with nothing started yet."""

from __future__ import annotations

import os
import platform
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandboxio.errors import ConfigurationError, CreationError
from sandboxio_local import _egress, _guest, _layout, _python, _readable, _seccomp
from sandboxio_local._caps import Caps, plan
from sandboxio_local._identity import OWN_USER
from sandboxio_local._warden.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sandboxio.spi import ProvisionRequest
    from sandboxio_local._bwrap import Bubblewrap
    from sandboxio_local._cgroup import Hierarchy
    from sandboxio_local._launch import Descriptors

__all__ = ["LIFETIME_GRACE", "Plan", "check_machine", "connect", "listen", "make"]

LIFETIME_GRACE: Final = 2.0
"""Seconds that the guest has to end itself when the lifetime is over, before the warden does it."""

BACKLOG: Final = 16
"""Connections of other processes that may wait for the guest to take them."""

_OPEN_TO_OTHERS: Final = 0o005

_STAGED_AT: Final = "/tmp/{}"  # noqa: S108  # in the mount namespace of one child of the warden


@dataclass(frozen=True)
class Plan:
    """A checked request.

    Attributes:
        request: What was asked for.
        bubblewrap: The binary.
        caps: How its caps are enforced.
        egress: How its network policy is enforced.
        root: Where its system comes from.
        interpreter: The Python of its guest.
        readable: Directories of the host that its creator lets it read.
    """

    request: ProvisionRequest
    bubblewrap: Bubblewrap
    caps: Caps
    egress: _egress.Egress
    root: str
    interpreter: _python.Interpreter
    readable: _readable.Readable = ()

    def options(self, uid: int, descriptors: Descriptors, channel: int, listener: int) -> Options:
        """Return what the warden is told, apart from the descriptors that are its own.

        Args:
            uid: An id of the host to run as, or `OWN_USER`.
            descriptors: Where to open what bubblewrap reads.
            channel: The guest's end of its channel.
            listener: The guest's listening socket.
        """
        options = Options()
        options.uid = uid
        staged = self._staged() if uid != OWN_USER else ()
        options.stage = [real for real, _ in staged]
        options.bwrap = _layout.staged_path(self.bubblewrap.path, staged)
        options.lifetime = self.request.timeout + LIFETIME_GRACE
        options.keep = [channel, listener]

        def data(content: bytes) -> int:
            fd = descriptors.data(content)
            options.keep.append(fd)
            return fd

        name, content = _guest.program(self.interpreter)
        layout = _layout.Layout(
            root=self.root,
            prefix=self.interpreter.prefix,
            disk=self.caps.disk,
            guest=(name, content),
            nameserver=self.egress.nameserver,
            readable=self.readable,
            staged=staged,
        )
        words = _layout.options(layout, data)
        filter_ = _seccomp.build(platform.machine(), also_refused=self.caps.refused)
        words += ["--seccomp", str(data(filter_))]
        options.arguments = descriptors.data(b"".join(os.fsencode(word) + b"\0" for word in words))
        options.command = [
            *(self.interpreter.path, "-I", "-S", "-B", _layout.guest_path(name)),
            *(f"in={channel}", f"out={channel}", f"listen={listener}"),
        ]
        if self.caps.groups is not None:
            options.cgroups = list(self.caps.groups.steps)
            options.join = list(self.caps.groups.join)
        options.limits = list(self.caps.limits)
        options.cores = list(self.caps.cores)
        options.helper = list(self.egress.helper)
        return options

    def _staged(self) -> tuple[tuple[str, str], ...]:
        """Return what only root may be able to reach, and where its child puts it."""
        real = (
            self.bubblewrap.home,
            self.interpreter.prefix,
            None if self.root == "/" else self.root,
            *(real for real, _ in self.readable),
        )
        wanted = dict.fromkeys(path for path in real if path is not None)
        for path in wanted:
            if Path(path).stat().st_mode & _OPEN_TO_OTHERS != _OPEN_TO_OTHERS:
                raise ConfigurationError(
                    f"{path} is closed to other users, and a sandbox of root's runs as another one.",
                    hint=f"Open it, as far as code in the sandbox may read it: chmod a+rX {path}",
                )
        return tuple((path, _STAGED_AT.format(number)) for number, path in enumerate(wanted))


def check_machine() -> None:
    """Refuse machines that this backend cannot work on.

    Raises:
        CreationError: With what is missing.
    """
    if platform.system() != "Linux":
        raise CreationError(
            f"The local backend needs Linux, and this is {platform.system()}.",
            hint="Use the docker backend.",
        )
    if platform.machine() not in _seccomp.MACHINES:
        raise CreationError(
            f"There is no system call filter for {platform.machine()}.",
            hint=f"Use the docker backend, or one of: {', '.join(_seccomp.MACHINES)}.",
        )
    if not hasattr(os, "pidfd_open"):
        raise CreationError("This Python was built for a kernel without pidfds.")


def make(
    request: ProvisionRequest,
    bubblewrap: Bubblewrap,
    hierarchy: Hierarchy | None,
    read_only: Mapping[str, str] | None = None,
) -> Plan:
    """Check a request against what this host can do.

    Raises:
        ConfigurationError: The template is not a usable tree, or a cap is too small.
        CapabilityNotSupported: A cap or a network policy cannot be enforced here.
    """
    egress = _egress.of(request.network)
    caps = plan(request.name, request.resources, hierarchy)
    if request.template is None:
        readable = _readable.check(read_only)
        return Plan(request, bubblewrap, caps, egress, "/", _python.on_host(), readable)
    if read_only:
        raise ConfigurationError(
            "LocalConfig.read_only and a template exclude each other.",
            hint="Put what is to be read into the template.",
        )
    root = _tree(request.template)
    return Plan(request, bubblewrap, caps, egress, root, _python.in_tree(root))


def _tree(template: str) -> str:
    if not template.startswith("/"):
        raise ConfigurationError(
            f"The template of the local backend is a directory, and {template!r} is no absolute path.",
            hint="Write local:///path/to/rootfs, with three slashes.",
        )
    root = os.path.realpath(template)
    if root == "/" or not Path(root).is_dir():
        raise ConfigurationError(f"The template {template!r} is not a directory to use as a root.")
    if _python.resolve(root, "/bin/sh") is None:
        raise ConfigurationError(
            f"The root file system {template!r} has no /bin/sh.",
            hint="Give the directory that holds its bin, lib and usr.",
        )
    return root


def listen(path: Path) -> socket.socket:
    """Return a listening socket that no other user can reach."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as address:
            listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def connect(sock: socket.socket, path: Path) -> None:
    """Connect to what `listen` made. Never blocks: the kernel queues the connection or refuses."""
    sock.setblocking(False)
    with _short(path) as address:
        sock.connect(address)


@contextmanager
def _short(path: Path) -> Generator[str, None, None]:
    # A socket's address is at most 107 bytes long, and some directories are deeper than that.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
