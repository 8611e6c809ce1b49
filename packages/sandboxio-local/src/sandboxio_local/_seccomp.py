"""The system call filter: a classic BPF program, written here instruction by instruction.

Everything that a program without privileges needs is allowed. What is not: everything that Docker's
default profile refuses a container without capabilities, and beyond it the socket families and
protocols whose code is rarely used and often broken, file handles, and calls newer than this
module. What a program may want to try and do without gets ``ENOSYS``, as from an older kernel.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final

from sandboxio_local._syscalls import LAST, numbers

__all__ = ["MACHINES", "build"]

MACHINES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machines there is a filter for, and what the kernel calls each (``AUDIT_ARCH_*``)."""

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_ALLOW: Final = 0x7FFF0000
_KILL_PROCESS: Final = 0x80000000

_NUMBER: Final = 0  # offsets in struct seccomp_data
_ARCH: Final = 4
_ARGUMENTS: Final = 16

_CLONE_NEW: Final = 0x7E020000  # every CLONE_NEW* flag that clone() knows
_TIOCSTI: Final = 0x5412  # type into the terminal that one runs on
_TIOCLINUX: Final = 0x541C  # paste into a virtual console
_PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, its 32-bit uname; query
_PROTOCOLS: Final = (0, 1, 6, 17, 58)  # any, ICMP, TCP, UDP, ICMPv6

# Mounts and namespaces; kernel, clock and machine; other processes; keys; handles; obsolete calls.
_REFUSED: Final = """
mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
statmount listmount setns unshare quotactl quotactl_fd swapon swapoff
acct bpf perf_event_open syslog kexec_load kexec_file_load init_module finit_module delete_module
create_module get_kernel_syms query_module reboot settimeofday clock_settime sethostname
setdomainname iopl ioperm modify_ldt vhangup lookup_dcookie fanotify_init fanotify_mark
lsm_get_self_attr lsm_set_self_attr lsm_list_modules
kcmp pidfd_getfd process_madvise move_pages migrate_pages mbind set_mempolicy get_mempolicy
set_mempolicy_home_node userfaultfd
add_key request_key keyctl
open_by_handle_at name_to_handle_at
uselib ustat sysfs _sysctl nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver
"""

# Libraries try these and fall back, if they are told that the kernel does not have them.
_ABSENT: Final = "clone3 io_uring_setup io_uring_enter io_uring_register"

_Block = list[tuple[int, int, int, int]]


def _fail(number: int) -> int:
    return 0x00050000 | number  # SECCOMP_RET_ERRNO


def _give(action: int) -> _Block:
    return [(_RETURN, 0, 0, action)]


def _argument(index: int) -> tuple[int, int, int, int]:
    # The low half of a register. The kernel takes all that is checked here as 32 bits, so a value
    # hidden behind a set high half is the same value to it.
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _one_of(index: int, values: tuple[int, ...], then: _Block, otherwise: _Block) -> _Block:
    tests: _Block = [
        (_EQUAL, len(values) - 1 - at + len(otherwise), 0, value) for at, value in enumerate(values)
    ]
    return [_argument(index), *tests, *otherwise, *then]


def _checked() -> dict[str, _Block]:
    """Return what is asked of the arguments of calls that are allowed in part."""
    refuse = _give(_fail(errno.EPERM))
    allow = _give(_ALLOW)
    no_family = _give(_fail(errno.EAFNOSUPPORT))
    no_protocol = _give(_fail(errno.EPROTONOSUPPORT))
    internet = _one_of(2, _PROTOCOLS, allow, no_protocol)
    routing = _one_of(2, (0,), allow, no_protocol)
    unix = _one_of(0, (socket.AF_UNIX,), allow, no_family)
    by_family = _one_of(0, (socket.AF_NETLINK,), routing, unix)
    return {
        "clone": [_argument(0), (_ANY_BIT, 0, 1, _CLONE_NEW), *refuse, *allow],
        "ioctl": _one_of(1, (_TIOCSTI, _TIOCLINUX), refuse, allow),
        "personality": _one_of(0, _PERSONALITIES, allow, refuse),
        "socket": _one_of(0, (socket.AF_INET, socket.AF_INET6), internet, by_family),
        "socketpair": unix,
    }


def build(machine: str, *, also_refused: frozenset[str] = frozenset()) -> bytes:
    """Return the filter of a machine as an array of ``struct sock_filter``.

    Args:
        machine: One of `MACHINES`.
        also_refused: Names of further calls to refuse with ``EPERM``.
    """
    table = numbers(machine)
    refused = {*_REFUSED.split(), *also_refused}
    blocks = [_give(_fail(errno.ENOSYS))] * (LAST + 2)  # gaps of the table, and all beyond it
    checked = _checked()
    for name, number in table.items():
        if name in refused:
            blocks[number] = _give(_fail(errno.EPERM))
        elif name in _ABSENT.split():
            continue
        else:
            blocks[number] = checked.get(name, _give(_ALLOW))
    program: _Block = [
        (_LOAD, 0, 0, _ARCH),
        # Calls of another machine's (32-bit x86 on x86-64) mean other things by the same numbers.
        (_EQUAL, 1, 0, MACHINES[machine]),
        *_give(_KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for number, block in enumerate(blocks):
        if number > LAST:
            program += block
        elif block != blocks[number + 1]:
            program += [(_AT_LEAST, len(block), 0, number + 1), *block]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
