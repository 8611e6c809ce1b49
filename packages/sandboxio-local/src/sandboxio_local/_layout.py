"""The file system of a sandbox, as options of bubblewrap."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from sandboxio_local._etc import HOST_ENTRIES, HOST_NAME, RESOLV_CONF, SYNTHETIC

__all__ = ["SHM", "TMP", "WORKDIR", "Disk", "Layout", "guest_path", "options", "staged_path"]

WORKDIR: Final = "/work"

# Inside the sandbox, where they are its own.
TMP: Final = "/tmp"  # noqa: S108
SHM: Final = "/dev/shm"  # noqa: S108

_USER: Final = 1000

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

_OWN: Final = frozenset(("dev", "etc", "proc", "run", "sys", "tmp", "var", "work"))
"""Top-level directories that are never taken from a tree, because a sandbox has its own."""

_FOLDERS: Final = ("/etc", "/etc/ssl", "/etc/pki", "/etc/pki/tls", "/run", "/run/sandboxio", "/var")

_LEAKS: Final = (
    *("acpi", "asound", "scsi"),
    *("cmdline", "config.gz", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users"),
    *("keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "modules"),
    *("sched_debug", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo"),
)
"""Entries of ``/proc`` that tell about the host rather than about the sandbox."""


@dataclass(frozen=True)
class Disk:
    """Sizes in bytes of what a sandbox may write to; together they are its disk."""

    work: int
    tmp: int
    shm: int

    @classmethod
    def of(cls, mebibytes: int) -> Disk:
        """Divide a disk: three quarters for work, most of the rest for ``/tmp``."""
        total = mebibytes << 20
        page = 4096
        shm = total // 16 // page * page
        tmp = total * 3 // 16 // page * page
        return cls(work=total - tmp - shm, tmp=tmp, shm=shm)


@dataclass(frozen=True)
class Layout:
    """What the file system of one sandbox is made of.

    Attributes:
        root: Where the system comes from: ``/``, or a tree.
        prefix: A Python installation outside the system directories, bound at its own path.
        disk: Sizes of what may be written to.
        guest: Name and content of the guest's program.
        nameserver: Address for ``resolv.conf``; without one there is none.
        readable: Directories of the host that may be read, and where they are inside.
        staged: Directories of the host that bubblewrap finds elsewhere, and where.
    """

    root: str
    prefix: str | None
    disk: Disk
    guest: tuple[str, bytes]
    nameserver: str | None
    readable: tuple[tuple[str, str], ...] = ()
    staged: tuple[tuple[str, str], ...] = ()


def guest_path(name: str) -> str:
    """Return where the guest's program is in a sandbox."""
    return f"/run/sandboxio/{name}"


def options(layout: Layout, data: Callable[[bytes], int]) -> list[str]:
    """Return the options; ``data`` turns content into a descriptor to read it from."""
    words = [
        *_namespaces(),
        *_environment(layout),
        # Made here, because directories made on the way to a file get strange permissions.
        *(word for path in _FOLDERS for word in ("--perms", "755", "--dir", path)),
        *_system(layout.root),
        *_etc(layout, data),
        *_proc(),
        *("--dev", "/dev"),
        *_tmpfs(layout.disk.shm, "1777", SHM),
        *("--remount-ro", "/dev"),
        *_tmpfs(layout.disk.tmp, "1777", TMP),
        *_tmpfs(layout.disk.work, "755", WORKDIR),
        *("--symlink", TMP, f"/var{TMP}", "--symlink", "/run", "/var/run"),
        *(("--ro-bind", layout.prefix, layout.prefix) if layout.prefix else ()),
        *(word for real, inside in layout.readable for word in ("--ro-bind", real, inside)),
        *(
            "--perms",
            "444",
            "--ro-bind-data",
            str(data(layout.guest[1])),
            guest_path(layout.guest[0]),
        ),
        *("--remount-ro", "/"),
        *("--chdir", WORKDIR),
    ]
    for at, word in enumerate(words):
        if word == "--ro-bind":
            words[at + 1] = staged_path(words[at + 1], layout.staged)
    return words


def staged_path(path: str, staged: tuple[tuple[str, str], ...]) -> str:
    """Return where bubblewrap finds a path of the host."""
    for real, moved in staged:
        if path == real or path.startswith(f"{real}/"):
            return moved + path[len(real) :]
    return path


def _namespaces() -> list[str]:
    return [
        *(f"--unshare-{kind}" for kind in ("user", "ipc", "pid", "net", "uts", "cgroup")),
        *("--disable-userns", "--uid", str(_USER), "--gid", str(_USER), "--cap-drop", "ALL"),
        *("--as-pid-1", "--die-with-parent", "--new-session", "--hostname", HOST_NAME),
    ]


def _environment(layout: Layout) -> list[str]:
    path = f"{layout.prefix}/bin:{_PATH}" if layout.prefix else _PATH
    words = ["--clearenv"]
    for name, value in (("PATH", path), ("HOME", WORKDIR), ("LANG", "C.UTF-8")):
        words += ["--setenv", name, value]
    return words


def _tmpfs(size: int, mode: str, path: str) -> list[str]:
    return ["--size", str(size), "--perms", mode, "--tmpfs", path]


def _system(root: str) -> list[str]:
    if root == "/":
        return ["--ro-bind", "/usr", "/usr", *_entries("/", "/", _SYSTEM)]
    return _entries(root, "/", sorted(set(_names(root)) - _OWN))


def _names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def _entries(source: str, target: str, names: tuple[str, ...] | list[str]) -> list[str]:
    """Bind entries of a directory, links as links: they mean what they mean inside."""
    words: list[str] = []
    for name in names:
        path = Path(source, name)
        inside = str(PurePosixPath(target, name))
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), inside]
        elif path.is_dir() or path.is_file():
            words += ["--ro-bind", str(path), inside]
    return words


def _etc(layout: Layout, data: Callable[[bytes], int]) -> list[str]:
    synthetic = dict(SYNTHETIC)
    if layout.nameserver is not None:
        synthetic["resolv.conf"] = RESOLV_CONF.format(address=layout.nameserver)
    words: list[str] = []
    if layout.root == "/":
        for name in HOST_ENTRIES:
            # The target counts here, not the link: it may lie where the sandbox sees nothing.
            if Path("/etc", name).exists():
                words += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    else:
        folder = str(Path(layout.root, "etc"))
        hidden = {*synthetic, "resolv.conf", "mtab"}
        if Path(folder).is_dir():
            words += _entries(folder, "/etc", sorted(set(_names(folder)) - hidden))
    for name, content in synthetic.items():
        words += ["--perms", "444", "--ro-bind-data", str(data(content.encode())), f"/etc/{name}"]
    return words


def _proc() -> list[str]:
    words = ["--proc", "/proc"]
    for name in _LEAKS:
        try:
            mode = Path("/proc", name).lstat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            words += ["--tmpfs", f"/proc/{name}", "--remount-ro", f"/proc/{name}"]
        elif mode & 0o004:
            # What only root may read is out of reach already: nobody inside is the host's root.
            words += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return words
