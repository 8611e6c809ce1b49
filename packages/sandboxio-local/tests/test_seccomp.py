"""The filter, run instruction by instruction as the kernel would."""

from __future__ import annotations

import errno
import struct

import pytest

from sandboxio_local._seccomp import MACHINES, build
from sandboxio_local._syscalls import LAST, numbers

ALLOW = 0x7FFF0000
KILL = 0x80000000
WORD = 0xFFFFFFFF

MUST_FAIL = """
mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
setns unshare kexec_load kexec_file_load bpf perf_event_open keyctl add_key request_key userfaultfd
io_uring_setup io_uring_enter io_uring_register open_by_handle_at init_module finit_module
delete_module swapon swapoff reboot acct settimeofday clock_settime quotactl quotactl_fd iopl ioperm
clone3 syslog sethostname setdomainname kcmp fanotify_init vhangup pidfd_getfd process_madvise
"""

MUST_WORK = """
read write openat close execve exit_group mmap mprotect futex epoll_pwait wait4 kill ptrace
process_vm_readv prctl seccomp memfd_create pidfd_open landlock_create_ruleset statx rseq getrandom
sched_setaffinity prlimit64 setxattr inotify_init1 timerfd_create
"""


class Simulator:
    """Runs classic BPF over one ``struct seccomp_data``."""

    def __init__(self, program: bytes) -> None:
        self.program = list(struct.iter_unpack("=HBBI", program))

    def run(self, arch: int, number: int, *arguments: int) -> int:
        padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
        data = struct.pack("<IIQ6Q", number, arch, 0, *padded)
        at = accumulator = 0
        while True:
            code, yes, no, k = self.program[at]
            at += 1
            if code == 0x20:
                (accumulator,) = struct.unpack_from("<I", data, k)
            elif code == 0x15:
                at += yes if accumulator == k else no
            elif code == 0x35:
                at += yes if accumulator >= k else no
            elif code == 0x45:
                at += yes if accumulator & k else no
            elif code == 0x06:
                return int(k)
            else:
                raise AssertionError(f"an instruction {code:#x} that the filter does not need")


class Filter:
    """The filter of one machine, asked by name."""

    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.arch = MACHINES[machine]
        self.table = numbers(machine)
        self.simulator = Simulator(build(machine))

    def __call__(self, name: str, *arguments: int) -> int | None:
        """Return the errno that a call gets, or ``None`` if it is allowed."""
        return self.by_number(self.table[name], *arguments)

    def by_number(self, number: int, *arguments: int) -> int | None:
        result = self.simulator.run(self.arch, number, *arguments)
        if result == ALLOW:
            return None
        assert result & ~0xFFFF == 0x50000
        return result & 0xFFFF


@pytest.fixture(params=sorted(MACHINES))
def filter_(request: pytest.FixtureRequest) -> Filter:
    return Filter(request.param)


def test_refused_calls_are_refused(filter_: Filter) -> None:
    known = [name for name in MUST_FAIL.split() if name in filter_.table]
    assert len(known) > 40
    assert {name: filter_(name) for name in known if filter_(name) is None} == {}


def test_every_name_that_is_refused_exists_somewhere() -> None:
    from sandboxio_local import _seccomp

    somewhere = set().union(*(numbers(machine) for machine in MACHINES))
    assert set(_seccomp._REFUSED.split()) | set(_seccomp._ABSENT.split()) <= somewhere


def test_ordinary_calls_are_allowed(filter_: Filter) -> None:
    known = [name for name in MUST_WORK.split() if name in filter_.table]
    assert len(known) > 20
    assert {name: filter_(name) for name in known if filter_(name) is not None} == {}


def test_calls_that_programs_can_do_without_look_absent(filter_: Filter) -> None:
    for name in ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"):
        assert filter_(name) == errno.ENOSYS


def test_calls_newer_than_the_filter_look_absent(filter_: Filter) -> None:
    for number in (LAST + 1, LAST + 2, 1000, 0x3FFFFFFF, 0x7FFFFFFF, WORD):
        assert filter_.by_number(number) == errno.ENOSYS


def test_gaps_of_the_table_look_absent(filter_: Filter) -> None:
    gaps = set(range(LAST + 1)) - set(filter_.table.values())
    assert gaps
    assert {filter_.by_number(number) for number in gaps} == {errno.ENOSYS}


def test_x32_calls_look_absent() -> None:
    filter_ = Filter("x86_64")
    for number in filter_.table.values():
        assert filter_.by_number(0x40000000 | number) == errno.ENOSYS


@pytest.mark.parametrize("arch", [0x40000003, 0x40000028, 0x0, 0xC000003E ^ 1])
def test_another_machines_calls_kill(arch: int) -> None:
    for machine in MACHINES:
        simulator = Simulator(build(machine))
        assert simulator.run(arch, numbers(machine)["read"]) == KILL


@pytest.mark.parametrize(
    "flag",
    [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000],
)
def test_clone_makes_no_namespace(filter_: Filter, flag: int) -> None:
    assert filter_("clone", flag | 17) == errno.EPERM
    assert filter_("clone", flag | 17 | 0xFFFF_FFFF_0000_0000) == errno.EPERM


def test_clone_makes_processes_and_threads(filter_: Filter) -> None:
    assert filter_("clone", 17) is None
    assert filter_("clone", 0x3D0F00) is None


@pytest.mark.parametrize("high", [0, 0xDEADBEEF << 32])
def test_typing_into_a_terminal_is_refused(filter_: Filter, high: int) -> None:
    assert filter_("ioctl", 0, 0x5412 | high) == errno.EPERM
    assert filter_("ioctl", 0, 0x541C | high) == errno.EPERM
    assert filter_("ioctl", 0, 0x5413 | high) is None


@pytest.mark.parametrize("family", [1, 2, 10, 16])
def test_usual_socket_families_work(filter_: Filter, family: int) -> None:
    assert filter_("socket", family, 1, 0) is None
    assert filter_("socket", family | 0xFFFF_FFFF_0000_0000, 1, 0) is None


@pytest.mark.parametrize("family", [0, 3, 4, 5, 9, 15, 17, 21, 29, 30, 31, 38, 40, 44, 45, WORD])
def test_other_socket_families_are_refused(filter_: Filter, family: int) -> None:
    assert filter_("socket", family, 1, 0) == errno.EAFNOSUPPORT
    assert filter_("socketpair", family, 1, 0) == errno.EAFNOSUPPORT


@pytest.mark.parametrize("protocol", [2, 33, 41, 47, 132, 136, 255, 262])
def test_rare_internet_protocols_are_refused(filter_: Filter, protocol: int) -> None:
    assert filter_("socket", 2, 3, protocol) == errno.EPROTONOSUPPORT
    assert filter_("socket", 10, 3, protocol) == errno.EPROTONOSUPPORT


@pytest.mark.parametrize("protocol", [1, 6, 17, 58])
def test_usual_internet_protocols_work(filter_: Filter, protocol: int) -> None:
    assert filter_("socket", 2, 1, protocol) is None


@pytest.mark.parametrize("protocol", [3, 4, 9, 12, 15, 16, 20])
def test_netlink_is_for_routes_alone(filter_: Filter, protocol: int) -> None:
    assert filter_("socket", 16, 3, protocol) == errno.EPROTONOSUPPORT
    assert filter_("socket", 16, 3, 0) is None


def test_socketpair_is_for_unix_alone(filter_: Filter) -> None:
    assert filter_("socketpair", 1, 1, 0) is None
    assert filter_("socketpair", 2, 1, 0) == errno.EAFNOSUPPORT


def test_personality_may_be_asked_and_left_alone(filter_: Filter) -> None:
    assert filter_("personality", WORD) is None
    assert filter_("personality", 0) is None
    assert filter_("personality", 0x0400000) == errno.EPERM
    assert filter_("personality", 0x0040000) == errno.EPERM


def test_more_can_be_refused() -> None:
    refused = frozenset({"memfd_create", "sched_setaffinity"})
    for machine in MACHINES:
        simulator = Simulator(build(machine, also_refused=refused))
        for name in refused:
            number = numbers(machine)[name]
            assert simulator.run(MACHINES[machine], number) == 0x50000 | errno.EPERM


def test_every_jump_stays_within_the_program() -> None:
    for machine in MACHINES:
        program = Simulator(build(machine)).program
        assert len(program) < 4096
        for at, (code, yes, no, _) in enumerate(program):
            if code & 7 == 5:
                assert at + 1 + max(yes, no) < len(program)
        assert program[-1][0] == 0x06


def test_numbers_are_those_of_this_machine() -> None:
    import ctypes
    import os
    import platform

    table = numbers(platform.machine())
    libc = ctypes.CDLL(None)
    assert libc.syscall(table["getpid"]) == os.getpid()
    assert libc.syscall(table["getuid"]) == os.getuid()
    assert libc.syscall(table["pidfd_open"], os.getpid(), 0) > 2
