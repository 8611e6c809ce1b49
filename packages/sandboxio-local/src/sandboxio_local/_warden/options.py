"""What a warden is told, as ``name=value`` arguments."""

from __future__ import annotations

__all__ = ["Options", "parse"]


class Options:
    """The arguments of one warden.

    Attributes:
        control: Descriptor of a ``SOCK_SEQPACKET`` socket to the creator. Its end ends the sandbox.
        directory: Path of the sandbox's state directory.
        lock: Descriptor of that directory, with the lock that says it is in use.
        owner: Process id of the creator.
        lifetime: Seconds after which the sandbox is ended.
        bwrap: Path of the bubblewrap binary.
        arguments: Descriptor that bubblewrap reads its options from.
        command: What bubblewrap runs: the guest.
        keep: Descriptors that go to bubblewrap, and through it to the guest.
        uid: An unused id of the host for the sandbox to run as; -1 for the caller's own.
        stage: Paths that only the caller may reach, each to be found below ``/tmp/0``, ``/tmp/1``…
        cgroups: Steps that make the control groups, in order: ``mkdir=PATH``, ``write=PATH=VALUE``.
        join: ``cgroup.procs`` files of the groups that the sandbox belongs to.
        limits: Resource limits as pairs of number and value.
        cores: Processors that the sandbox may run on; any if empty.
        helper: Command that gives the sandbox a network; none if empty.
        hold: Descriptors to keep open and to hand to nobody.
    """

    def __init__(self) -> None:
        self.control = -1
        self.directory = ""
        self.lock = -1
        self.owner = 0
        self.lifetime = 0.0
        self.bwrap = ""
        self.arguments = -1
        self.command: list[str] = []
        self.keep: list[int] = []
        self.uid = -1
        self.stage: list[str] = []
        self.cgroups: list[str] = []
        self.join: list[str] = []
        self.limits: list[tuple[int, int]] = []
        self.cores: list[int] = []
        self.helper: list[str] = []
        self.hold: list[int] = []

    def words(self) -> list[str]:
        """Return the arguments that `parse` turns into this."""
        words = [f"{name}={getattr(self, name)}" for name in (*_NUMBERS, *_TEXTS)]
        words.append(f"lifetime={self.lifetime}")
        words += [f"limits={number}:{value}" for number, value in self.limits]
        for name in (*_NUMBER_LISTS, *_TEXT_LISTS):
            words += [f"{name}={item}" for item in getattr(self, name)]
        return words


_NUMBERS = ("control", "lock", "owner", "arguments", "uid")
_TEXTS = ("directory", "bwrap")
_NUMBER_LISTS = ("keep", "cores", "hold")
_TEXT_LISTS = ("command", "stage", "cgroups", "join", "helper")


def parse(words: list[str]) -> Options:
    """Read arguments back."""
    options = Options()
    for word in words:
        name, _, text = word.partition("=")
        if name in _NUMBERS:
            setattr(options, name, int(text))
        elif name in _TEXTS:
            setattr(options, name, text)
        elif name in _NUMBER_LISTS:
            getattr(options, name).append(int(text))
        elif name in _TEXT_LISTS:
            getattr(options, name).append(text)
        elif name == "lifetime":
            options.lifetime = float(text)
        elif name == "limits":
            number, _, value = text.partition(":")
            options.limits.append((int(number), int(value)))
        else:
            raise ValueError(name)
    return options
