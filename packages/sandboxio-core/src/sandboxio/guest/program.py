"""The guest: runs inside a sandbox and serves its host over one byte stream (see PROTOCOL.md).

One file, standard library only, Python 3.8 or newer, because it must run on whatever a sandbox
has. The host imports the frame types and the codec from here, so that they exist once. Imports
that start-up does not need, or that only Linux has, are made where they are used.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Set, Tuple

VERSION = 1
HEADER = struct.Struct(">IBI")
MAX_PAYLOAD = 1 << 20
MAX_DEPTH = 8
WINDOW = 1 << 20  # first grant for stdin, see PROTOCOL.md
WRITE_WINDOW = 1 << 22  # and for WRITE; credited by the quarter, for a credit wakes all on the way

HELLO, INIT, READY, BYE = 1, 2, 3, 4
START, STARTED, STDIN, STDIN_EOF, OUT, ERR, SIGNAL, KILL, EXIT = range(10, 19)
CREDIT = 20
READ, INFO, DATA, WRITE, END, ABORT, STAT, LS, MKDIR, REMOVE, ENTRIES, DONE, FAIL = range(30, 43)
RAW = frozenset((STDIN, OUT, ERR, DATA))

UNSIZED = 1 << 26  # most bytes that are read of a file without a size, as those of /proc are
CHUNK = 1 << 18  # bytes read from a pipe or a file at once
MUCH = 1 << 16  # bytes from which on it pays to move them and not to copy them
PIPE_SIZE = 1 << 20  # asked for once a pipe was seen full; the kernel's limit for users
HIGH_WATER = 1 << 21  # unsent bytes of a connection above which its producers pause
SLICE = 256  # directory entries handled before others get their turn
DEADLINE_GRACE = 1.0  # seconds that the host has to enforce a deadline before the guest does
KILL_BOUND = 5.0  # seconds after which a kill is reported as not confirmed
STRAY_PAUSE = 0.02  # seconds for a killed process to leave its children to the guest
LAST_WORDS = 0.2  # seconds for a BYE to leave before the guest exits

REPORT = struct.Struct("=ci")  # what a supervisor tells the guest

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37

MARK = b"SANDBOXIO_COMMAND"  # tells whose an orphan is, where the kernel has no child subreapers
CALM = 2  # looks in a row that find nothing of a command: a fork can slip through one of them


class Malformed(ValueError):
    """Bytes that are not what PROTOCOL.md allows."""


def encode(value: Any) -> bytes:
    """Bencode integers, bytes, text, lists and dictionaries."""
    out: List[bytes] = []
    _encode(value, out)
    return b"".join(out)


def _encode(value: Any, out: List[bytes]) -> None:
    kind: type[object] = value.__class__
    if issubclass(kind, int):
        out.append(b"i%de" % value)
    elif issubclass(kind, (bytes, str)):
        data = value.encode("utf-8", "surrogateescape") if issubclass(kind, str) else value
        out.append(b"%d:" % len(data))
        out.append(data)
    elif issubclass(kind, dict):
        out.append(b"d")
        for key, item in value.items():
            _encode(key, out)
            _encode(item, out)
        out.append(b"e")
    else:
        out.append(b"l")
        for item in value:
            _encode(item, out)
        out.append(b"e")


def decode(data: bytes, limit: int = MAX_PAYLOAD) -> Any:
    """Decode one bencoded value that fills `data` and is made of at most `limit` values.

    Raises:
        Malformed: It is anything else.
    """
    value, end = _decode(data, 0, MAX_DEPTH, [limit])
    if end != len(data):
        raise Malformed("bytes after the value")
    return value


def _decode(data: bytes, at: int, depth: int, left: List[int]) -> Tuple[Any, int]:
    left[0] -= 1
    if left[0] < 0:
        raise Malformed("too many values")
    kind = data[at : at + 1]
    if kind in (b"l", b"d"):
        if depth == 0:
            raise Malformed("nested too deep")
        items: List[Any] = []
        at += 1
        while data[at : at + 1] != b"e":
            item, at = _decode(data, at, depth - 1, left)
            items.append(item)
        if kind == b"l":
            return items, at + 1
        if len(items) % 2 or not all(isinstance(key, bytes) for key in items[::2]):
            raise Malformed("not a dictionary")
        return dict(zip(items[::2], items[1::2])), at + 1
    stop = data.find(b"e" if kind == b"i" else b":", at, at + 24)
    digits = data[at + 1 : stop] if kind == b"i" else data[at:stop]
    unsigned = digits[1:] if kind == b"i" and digits[:1] == b"-" else digits
    if stop < 0 or not unsigned.isdigit():
        raise Malformed("neither a number nor a length")
    if kind == b"i":
        return int(digits), stop + 1
    end = stop + 1 + int(digits)
    if end > len(data):
        raise Malformed("a string longer than its frame")
    return data[stop + 1 : end], end


# --------------------------------------------------------------------------- inside the sandbox


class Connection:
    """One host: the frames that come from it, and those that wait to go to it."""

    def __init__(self, guest: Guest, fd_in: int, fd_out: int, primary: bool) -> None:
        self.guest = guest
        self.fd_in = fd_in
        self.fd_out = fd_out
        self.primary = primary
        self.ready = not primary
        self.open = True
        self.operations: Dict[int, Any] = {}
        self.buffer = b""
        self.content = self.content_of = self.left = 0  # what a content frame still brings
        self.grown = False
        self.unsent: List[Any] = []
        self.unsent_size = 0
        self.paused: List[Callable[[], None]] = []
        self.reservoir: Tuple[int, ...] = ()  # a pipe for what is moved and not copied
        self.moves = hasattr(os, "splice")
        self.fed_by_pipe = os.fstat(fd_in).st_mode & 0o170000 == 0o010000  # or nothing moves in
        for fd in {fd_in, fd_out}:
            os.set_blocking(fd, False)
            guest.private.add(fd)
        guest.watch(fd_in, select.EPOLLIN, self.on_event)

    def send(self, kind: int, ident: int, payload: Any = b"") -> None:
        if not self.open:
            return
        if kind not in RAW and payload != b"":
            payload = encode(payload)
        self.unsent += (HEADER.pack(len(payload), kind, ident), payload)
        self.unsent_size += HEADER.size + len(payload)
        if len(self.unsent) == 2:
            self.flush()

    def send_moved(self, kind: int, ident: int, fd: int, size: int) -> int:
        """Send of a pipe or a file, at most `size` bytes, without a copy; return how much that was.

        It goes through a pipe of our own, which tells how much it is: what wrote it could also take it
        back out of the pipe where it was.
        """
        if not self.open or not self.moves:
            return 0
        try:
            if not self.reservoir:
                self.reservoir = os.pipe()
                self.guest.private.update(self.reservoir)
                grow(self.reservoir[1])
                grow(self.fd_out)
            count = os.splice(fd, self.reservoir[1], size, flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return 0
        except OSError:
            self.moves = False  # not every kernel can
            return 0
        if count:
            self.unsent += (HEADER.pack(count, kind, ident), count)
            self.unsent_size += HEADER.size + count
            if len(self.unsent) == 2:
                self.flush()
        return count

    def flush(self) -> None:
        try:
            while self.unsent:
                first = self.unsent[0]
                if isinstance(first, int):
                    self.move(first)
                    continue
                end = 1
                while end < min(64, len(self.unsent)) and not isinstance(self.unsent[end], int):
                    end += 1
                sent = os.writev(self.fd_out, self.unsent[:end])
                self.unsent_size -= sent
                done = 0
                while done < end and sent >= len(self.unsent[done]):
                    sent -= len(self.unsent[done])
                    done += 1
                del self.unsent[:done]
                if sent:
                    self.unsent[0] = memoryview(self.unsent[0])[sent:]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self.want_writable(bool(self.unsent))
        if self.unsent_size <= HIGH_WATER and self.paused:
            paused, self.paused = self.paused, []
            for resume in paused:
                resume()

    def move(self, size: int) -> None:
        """Move what is next, `size` bytes in the reservoir, to the host."""
        try:
            sent = os.splice(self.reservoir[0], self.fd_out, size, flags=os.SPLICE_F_NONBLOCK)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
            self.moves = False  # not to what the host is behind; so what was moved is copied
            data = os.read(self.reservoir[0], size)
            self.unsent[:1] = [data, size - len(data)] if len(data) < size else [data]
            return
        self.unsent_size -= sent
        self.unsent[:1] = [size - sent] if sent < size else []

    def want_writable(self, wanted: bool) -> None:
        if self.fd_in == self.fd_out:
            events = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
            self.guest.watch(self.fd_in, events, self.on_event)
        elif wanted:
            self.guest.watch(self.fd_out, select.EPOLLOUT, self.on_event)
        else:
            self.guest.unwatch(self.fd_out)

    def on_event(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self.flush()
        if self.open and events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self.receive()

    def move_content(self) -> int:
        """Move what comes next into the file that it is for; 0 if it has to be read."""
        if not (self.moves and self.fed_by_pipe and self.left >= MUCH):
            return 0
        writer = self.operations.get(self.content_of)
        return writer.move_from(self.fd_in, self.left) if isinstance(writer, Writer) else 0

    def receive(self) -> None:
        try:
            moved = self.move_content()
            if moved:
                self.left -= moved
                return
            data = os.read(self.fd_in, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        if self.buffer:
            data = self.buffer + data
        at = 0
        while self.open and (self.left or len(data) - at >= HEADER.size):
            if self.left:  # of content, which is taken as it comes
                part = memoryview(data)[at : at + self.left]
                if not part:
                    break
                at += len(part)
                self.left -= len(part)
                self.guest.on_content(self, self.content, self.content_of, part)
                continue
            length, kind, ident = HEADER.unpack_from(data, at)
            if length > MAX_PAYLOAD:
                self.close()
                return
            start, end = at + HEADER.size, at + HEADER.size + length
            if kind in RAW:
                self.content, self.content_of, self.left = kind, ident, length
                at = start
                if length >= MUCH and not self.grown:
                    self.grown = True
                    grow(self.fd_in)
                continue
            if len(data) < end:
                break
            at = end
            try:
                self.guest.on_frame(self, kind, ident, data[start:end])
            except (ValueError, LookupError, TypeError, AttributeError):
                self.close()  # no host of ours sends that
        self.buffer = data[at:]

    def close(self) -> None:
        if not self.open:
            return
        self.open = False
        for fd in {self.fd_in, self.fd_out, *self.reservoir}:
            self.guest.unwatch(fd)
            self.guest.private.discard(fd)
            os.close(fd)
        for operation in list(self.operations.values()):
            operation.abort()
        self.guest.on_closed(self)


def grow(fd: int) -> None:
    """Have a pipe hold more."""
    import fcntl

    try:
        fcntl.fcntl(fd, 1031, PIPE_SIZE)  # F_SETPIPE_SZ
    except OSError:
        pass  # no pipe, or over the user's quota of pipe memory: slower, nothing else


class Pipe:
    """The guest's end of a command's stdout or stderr."""

    def __init__(self, command: Command, fd: int, kind: int) -> None:
        self.command = command
        self.fd = fd
        self.kind = kind
        self.left: Optional[int] = None  # bytes still owed to the host once the command ended
        self.grown = False

    @property
    def settled(self) -> bool:
        return self.fd < 0 or self.left == 0

    def resume(self) -> None:
        if self.fd >= 0:
            self.command.guest.watch(self.fd, select.EPOLLIN, self.on_event)

    def on_event(self, _events: int) -> None:
        command = self.command
        if self.left == 0:
            self.take(CHUNK)  # a background child still writes; nobody is there to read it
            return
        if command.credit <= 0:
            command.guest.unwatch(self.fd)
            command.starved.append(self)
            return
        if command.connection.unsent_size > HIGH_WATER:
            command.guest.unwatch(self.fd)
            command.connection.paused.append(self.resume)
            return
        size = self.forward(min(CHUNK, command.credit))
        if size:
            command.credit -= size
            if self.left is not None:
                self.left = max(0, self.left - size)
            if size >= MUCH and not self.grown:
                self.grown = True
                grow(self.fd)
        command.finish_if_done()

    def forward(self, size: int) -> int:
        """Send some of what is there to the host, and return how much."""
        command = self.command
        if self.grown:
            moved = command.connection.send_moved(self.kind, command.ident, self.fd, size)
            if moved:
                return moved
        data = self.take(size)
        if data:
            command.connection.send(self.kind, command.ident, data)
        return len(data)

    def take(self, size: int) -> bytes:
        try:
            data = os.read(self.fd, size)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.command.guest.close_fd(self.fd)
            self.fd = -1
        return data

    def owe_what_is_there(self) -> None:
        import fcntl

        if self.fd >= 0 and self.left is None:
            size = fcntl.ioctl(self.fd, 0x541B, b"\0\0\0\0")  # FIONREAD
            self.left = struct.unpack("i", size)[0]
            self.resume()


class Command:
    """A running command: its supervisor, its pipes, and what the host granted."""

    def __init__(self, guest: Guest, connection: Connection, ident: int, request: Any) -> None:
        self.guest = guest
        self.connection = connection
        self.ident = ident
        self.credit = int(request[b"window"])
        self.starved: List[Pipe] = []
        self.pid = 0
        self.early: List[int] = []  # signals that came before its pid did
        self.status: Optional[int] = None
        self.killing = False
        self.empty = False
        self.deadline_passed = False
        self.finished = False
        self.mark = b""
        self.born = 0
        self.calm = 0
        self.stdin_fd = -1
        self.stdin_data: List[bytes] = []
        self.stdin_eof = False
        self.free_before = guest.free_space()
        env = dict(guest.env)
        env.update(request[b"env"])
        if not guest.subreaper:
            self.mark = MARK + b"=" + os.urandom(16).hex().encode()
            env[MARK] = self.mark[len(MARK) + 1 :]
        cwd = os.path.join(guest.workdir, request[b"cwd"] or b".")
        if not os.path.isdir(cwd):
            raise OSError(errno.ENOTDIR if os.path.lexists(cwd) else errno.ENOENT, "")
        if not os.access(cwd, os.X_OK):
            raise OSError(errno.EACCES, "")
        start = request[b"argv"], env, cwd, bool(request[b"stdin"])
        try:
            self.spawn(*start)
        except OSError as error:
            if error.errno != errno.EMFILE or not guest.allow_more_descriptors():
                raise
            self.spawn(*start)
        if self.mark:
            self.born = int(status_of(self.supervisor)[19])
        timeout = int(request[b"timeout"]) / 1000
        guest.at(self, time.monotonic() + timeout + DEADLINE_GRACE, self.on_deadline)

    def spawn(self, argv: List[bytes], env: Dict[bytes, bytes], cwd: bytes, stdin: bool) -> None:
        guest = self.guest
        opened: List[int] = []
        try:
            out_r, out_w = os.pipe()
            opened += (out_r, out_w)
            err_r, err_w = os.pipe()
            opened += (err_r, err_w)
            report_r, report_w = os.pipe()
            opened += (report_r, report_w)
            if stdin:
                in_r, in_w = os.pipe()
                opened += (in_r, in_w)
            else:
                in_r, in_w = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
                opened.append(in_r)
            guest.weigh(b"500")
            self.supervisor = os.fork()
        except OSError:
            guest.weigh(b"0")
            for fd in opened:
                os.close(fd)
            raise
        if self.supervisor == 0:
            supervise(
                guest,
                max([*guest.private, *opened]),
                argv,
                env,
                cwd,
                (in_r, out_w, err_w, report_w),
            )
        guest.weigh(b"0")
        for fd in (in_r, out_w, err_w, report_w):
            os.close(fd)
        guest.supervisors[self.supervisor] = self
        self.pipes = [Pipe(self, out_r, OUT), Pipe(self, err_r, ERR)]
        self.report_fd = report_r
        self.stdin_fd = in_w
        for fd in (out_r, err_r, report_r, in_w):
            if fd >= 0:
                os.set_blocking(fd, False)
                guest.private.add(fd)
        guest.watch(report_r, select.EPOLLIN, self.on_report)
        for pipe in self.pipes:
            pipe.resume()

    def on_report(self, _events: int) -> None:
        try:
            data = os.read(self.report_fd, 4096)
        except BlockingIOError:
            return
        for at in range(0, len(data), REPORT.size):
            tag, value = REPORT.unpack_from(data, at)
            if tag == b"S":
                self.pid = value
                self.connection.send(STARTED, self.ident, {"pid": value})
            elif tag == b"N":
                self.fail(value)
            elif tag == b"E":
                self.status = value
                if not self.killing:
                    for pipe in self.pipes:
                        pipe.owe_what_is_there()
            elif tag == b"K" and self.mark:
                self.hunt()
            elif tag == b"K":
                self.empty = True
        self.signal()
        if not data:
            self.guest.close_fd(self.report_fd)
            self.report_fd = -1
        if self.killing and self.empty:
            self.finish_killed()
        else:
            self.finish_if_done()

    def signal(self, *signums: int) -> None:
        """Signal its group while it runs, and until it is known which that is, remember to.

        The output of a command can reach the host, and an answer to it the guest, before its pid.
        """
        self.early += signums
        if self.pid and self.status is None:
            for signum in self.early:
                kill_group(self.pid, signum)
            self.early.clear()

    def on_supervisor_gone(self, killed: bool) -> None:
        """Take in its last reports; if it was killed, have the guest end what was below it."""
        before = -2
        while self.report_fd not in (-1, before):
            before = self.report_fd
            self.on_report(0)
        if killed:
            bereaved = not self.finished and (self.status is None or self.killing)
            if bereaved:
                self.begin_killing()
            if self.mark:
                self.hunt()
                return
            if bereaved:
                self.guest.bereaved.append(self)
            self.guest.kill_strays()
        elif self.mark and self.killing:
            self.hunt()
        elif self.killing or self.status is None:
            self.on_tree_gone()  # it had ended when the kill came

    def hunt(self) -> None:
        """Kill what left the tree for the guest, as it does where there are no subreapers.

        That nothing is left is said only when it is known: an orphan that has shed its mark may be
        of this command, unless it is older.
        """
        marked, unsure = strays(self.guest, self.mark, self.born)
        if marked:
            kill_trees(marked, self.guest.signals)
        self.calm = 0 if marked or (unsure and not self.finished) else self.calm + 1
        if self.calm < CALM:
            self.guest.at((self, "hunt"), time.monotonic() + STRAY_PAUSE, self.hunt)
        else:
            self.on_tree_gone()

    def on_tree_gone(self) -> None:
        if not self.finished:
            self.empty = True
            self.finish_killed()

    def fail(self, number: int) -> None:
        if not self.finished:
            self.connection.send(FAIL, self.ident, {"errno": number, "what": "start"})
            self.forget()

    def on_deadline(self) -> None:
        self.deadline_passed = True
        self.kill()

    def kill(self) -> None:
        if self.finished:
            return
        if self.status is not None and not self.killing:
            # It has ended by itself; only its output was still on the way.
            self.empty = True
            self.finish_killed()
            return
        self.begin_killing()
        if self.supervisor in self.guest.supervisors:
            os.kill(self.supervisor, self.guest.signals.SIGUSR1)
            # Code in the sandbox may have stopped it.
            os.kill(self.supervisor, self.guest.signals.SIGCONT)

    abort = kill

    def begin_killing(self) -> None:
        if not self.killing:
            self.killing = True
            self.guest.at(self, time.monotonic() + KILL_BOUND, self.finish_killed)

    def finish_if_done(self) -> None:
        if (
            self.status is not None
            and not self.killing
            and all(pipe.settled for pipe in self.pipes)
        ):
            self.finish()

    def finish_killed(self) -> None:
        for pipe in self.pipes:
            # Partial output, as far as the host's window reaches; the rest has no reader.
            while pipe.fd >= 0 and self.credit > 0:
                data = pipe.take(min(CHUNK, self.credit))
                if not data:
                    break
                self.credit -= len(data)
                self.connection.send(pipe.kind, self.ident, data)
        self.finish()

    def finish(self) -> None:
        if self.finished:
            return
        full = False
        if self.status:
            spaces = zip(self.free_before, self.guest.free_space())
            full = any(before > 0 and after == 0 for before, after in spaces)
        status = 9 if self.status is None else self.status
        self.connection.send(
            EXIT,
            self.ident,
            {
                "status": status,
                "killed": int(self.killing),
                "empty": int(self.empty or not self.killing),
                "deadline": int(self.deadline_passed),
                "full": int(full),
            },
        )
        self.forget()

    def forget(self) -> None:
        self.finished = True
        self.guest.timers.pop(self, None)
        self.connection.operations.pop(self.ident, None)
        self.close_stdin()
        for pipe in self.pipes:
            pipe.left = 0
            pipe.resume()

    def credited(self, n: int) -> None:
        self.credit += n
        starved, self.starved = self.starved, []
        for pipe in starved:
            pipe.resume()

    def on_stdin(self, part: memoryview) -> None:
        if self.stdin_fd < 0:
            self.connection.send(CREDIT, self.ident, {"n": len(part)})
            return
        self.stdin_data.append(bytes(part))
        self.write_stdin(0)

    def on_stdin_eof(self) -> None:
        self.stdin_eof = True
        self.write_stdin(0)

    def write_stdin(self, _events: int) -> None:
        if self.stdin_fd < 0:
            return
        written = 0
        try:
            while self.stdin_data:
                n = os.write(self.stdin_fd, self.stdin_data[0])
                written += n
                rest = self.stdin_data[0][n:]
                if rest:
                    self.stdin_data[0] = rest
                else:
                    del self.stdin_data[0]
        except BlockingIOError:
            self.guest.watch(self.stdin_fd, select.EPOLLOUT, self.write_stdin)
        except OSError:
            # The command closed its stdin. What it did not want counts as taken.
            written += sum(map(len, self.stdin_data))
            self.stdin_data = []
            self.close_stdin()
        if written:
            self.connection.send(CREDIT, self.ident, {"n": written})
        if not self.stdin_data:
            if self.stdin_eof:
                self.close_stdin()
            elif self.stdin_fd >= 0:
                self.guest.unwatch(self.stdin_fd)

    def close_stdin(self) -> None:
        if self.stdin_fd >= 0:
            self.guest.close_fd(self.stdin_fd)
            self.stdin_fd = -1


def supervise(
    guest: Guest,
    highest: int,
    argv: List[bytes],
    env: Dict[bytes, bytes],
    cwd: bytes,
    fds: Tuple[int, int, int, int],
) -> NoReturn:
    """Be the supervisor of one command: run it, and on SIGUSR1 kill all that came of it.

    It stays for as long as anything is left of it: nothing below ever becomes a child of the guest,
    unless a supervisor is killed, and then all of that has to go.

    SIGUSR1 is blocked since before the fork, and SIGCHLD is before there is a child, so that
    none of them is lost: `sigwait` finds them pending. Every line that runs here copies pages of
    the guest, so there are few.

    Args:
        guest: What this process was forked from.
        highest: The highest descriptor that the guest has.
        argv: The command.
        env: Its environment.
        cwd: Its directory.
        fds: Its stdin, stdout and stderr, and where to report. All are above 3.
    """
    status = 70
    try:
        signals = guest.signals
        signals.pthread_sigmask(signals.SIG_BLOCK, {signals.SIGCHLD})
        for target, fd in enumerate(fds):
            os.dup2(fd, target, target < 3)
        os.closerange(4, highest + 1)
        signals.set_wakeup_fd(-1)
        if guest.nofile is not None:
            guest.resource.setrlimit(guest.resource.RLIMIT_NOFILE, guest.nofile)
        guest.prctl(PR_SET_CHILD_SUBREAPER, 1)
        # The end of the guest is a kill too. It may have come already.
        guest.prctl(PR_SET_PDEATHSIG, signals.SIGUSR1)
        if os.getppid() != guest.pid:
            os._exit(0)
        try:
            os.chdir(cwd)
            main = spawn(guest, argv, env)
        except OSError as error:
            report(b"N", error.errno or 0)
            os._exit(0)
        os.closerange(0, 3)
        if main < 0:
            report(b"S", 0)
            report(b"E", -main << 8)
            os._exit(0)
        report(b"S", main)
        killing = ended = False
        while True:
            children = True
            while children:
                try:
                    pid, wait_status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    children = False
                    break
                if pid == 0:
                    break
                if pid == main:
                    ended = True
                    report(b"E", wait_status)
            if not children:
                if killing:
                    report(b"K", 0)
                break
            if killing:
                kill_descendants(signals, 0 if ended else main)
                signals.sigtimedwait({signals.SIGCHLD}, 0.01)
            else:
                killing = signals.sigwait({signals.SIGCHLD, signals.SIGUSR1}) == signals.SIGUSR1
        status = 0
    finally:
        os._exit(status)


def report(tag: bytes, value: int) -> None:
    """Tell the guest, if there still is one; in a supervisor, where it is descriptor 3."""
    try:
        os.write(3, REPORT.pack(tag, value))
    except OSError:
        pass  # there is none any more, and all the more is there to do


def spawn(guest: Guest, argv: List[bytes], env: Dict[bytes, bytes]) -> int:
    """Start `argv`, found as a shell finds it, in a session of its own; return its pid.

    If there is nothing to execute, say so on stderr and return a shell's exit code, negated.

    Raises:
        OSError: No process could be made.
    """
    name = argv[0]
    if b"/" in name:
        places = [name]
    else:
        path = env.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
        places = [os.path.join(place or b".", name) for place in path.split(b":")]
    signals = guest.signals
    # What we ignore, and what we were started with: a job in the background ignores SIGQUIT, too.
    ignored = signals.valid_signals() - {signals.SIGKILL, signals.SIGSTOP}
    found: Optional[OSError] = None
    for place in places:
        if b"/" not in name and not os.access(place, os.F_OK):
            # Nothing there, or in a directory that this user may not look into. A try costs far more.
            continue
        try:
            # It shares the memory of its parent until it executes, which costs far less than a fork.
            return os.posix_spawn(place, argv, env, setsid=True, setsigmask=(), setsigdef=ignored)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            if error.errno == errno.ENOENT and os.path.exists(place):
                error = OSError(errno.ENOEXEC, "bad interpreter")
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                found = found or error
    what, code = "command not found", 127
    if found is not None:
        what, code = os.strerror(found.errno or 0), 126
        if found.args[1:] == ("bad interpreter",):
            what = "bad interpreter"
    os.write(2, b"sandboxio: " + name[:200] + b": " + what.encode() + b"\n")
    return -code


def kill_descendants(signals: Any, main: int = 0) -> None:
    """Kill everything below this process once; the caller repeats it until nothing is left.

    Groups before processes: a signal to a group reaches all of it at once, also what is being
    forked just then, so that a fork bomb cannot outrun it.
    """
    if main:
        kill_group(main, signals.SIGKILL)
    pids = own_children()
    # Then direct children: what orphans itself by double forking ends up there.
    for pid in pids:
        kill_one(pid, signals.SIGKILL)
    kill_trees(pids, signals)


def kill_trees(roots: List[int], signals: Any) -> None:
    """Kill processes and all below them once."""
    below = descendants(roots)
    for group in set(below.values()) - {os.getpgrp(), 0}:
        kill_group(group, signals.SIGKILL)
    for pid in below:
        kill_one(pid, signals.SIGKILL)


def own_children() -> List[int]:
    """List the children of this process, zombies included."""
    try:
        with open("/proc/thread-self/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        me = os.getpid()
        return [pid for pid, (parent, _) in processes().items() if parent == me]


def kill_group(group: int, signum: int) -> None:
    try:
        os.killpg(group, signum)
    except OSError:
        pass  # it is gone already


def kill_one(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except OSError:
        pass  # it is gone already


def descendants(roots: List[int]) -> Dict[int, int]:
    """Map these processes, and those below them, to their groups."""
    known = processes()
    children: Dict[int, List[int]] = {}
    for pid, (parent, _) in known.items():
        children.setdefault(parent, []).append(pid)
    found: Dict[int, int] = {}
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid in known:
            found[pid] = known[pid][1]
        todo += children.pop(pid, [])
    return found


def strays(guest: Guest, mark: bytes, born: int) -> Tuple[List[int], bool]:
    """List the processes with a mark, and say whether an orphan without any may belong to them.

    Args:
        guest: The guest, whose children orphans are.
        mark: The environment variable that all of one command has, unless it sheds it.
        born: When that command started; what is older is not of it.
    """
    marked: List[int] = []
    unsure = False
    for name in os.listdir("/proc"):
        pid = int(name) if name.isdigit() else guest.pid
        if pid == guest.pid or pid in guest.supervisors:
            continue
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                variables = file.read().split(b"\0")
            status = status_of(pid)
        except OSError:
            continue  # it is gone
        if status[0] in (b"Z", b"X"):
            continue
        if mark in variables:
            marked.append(pid)
        elif int(status[1]) == guest.pid and int(status[19]) >= born:
            unsure = unsure or not any(item.startswith(MARK + b"=") for item in variables)
    return marked, unsure


def status_of(pid: int) -> List[bytes]:
    """Return what /proc/PID/stat says behind the name: state, parent, group, and so on."""
    with open("/proc/%d/stat" % pid, "rb") as file:
        return file.read().rpartition(b")")[2].split()


def processes() -> Dict[int, Tuple[int, int]]:
    """Map every process that /proc shows to its parent and its group."""
    found: Dict[int, Tuple[int, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    _, parent, group = file.read().rpartition(b")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            found[int(name)] = int(parent), int(group)
    return found


# --------------------------------------------------------------------------- files


def must_be_regular(info: os.stat_result) -> None:
    kind = info.st_mode & 0o170000
    if kind != 0o100000:
        raise OSError(errno.EISDIR if kind == 0o040000 else errno.ENOTSUP, "")


class Reader:
    """A file on its way to the host."""

    def __init__(self, guest: Guest, connection: Connection, ident: int, request: Any) -> None:
        self.guest = guest
        self.connection = connection
        self.ident = ident
        self.credit = int(request[b"window"])
        self.waiting = False
        path = guest.path(request[b"path"])
        # Before it is opened: to open a pipe or a device does something to it.
        must_be_regular(os.stat(path))
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        info = os.fstat(self.fd)
        try:
            must_be_regular(info)
        except OSError:
            os.close(self.fd)
            raise
        self.unsized = info.st_size == 0
        # A file that grows while it is read is read to its present end. Those of /proc have no size.
        self.left = info.st_size or UNSIZED
        connection.send(
            INFO,
            ident,
            {
                "size": info.st_size,
                "mode": info.st_mode & 0o7777,
                "mtime": int(info.st_mtime * 1000),
            },
        )
        guest.private.add(self.fd)
        guest.soon(self.step)

    def step(self) -> None:
        if self.fd < 0:
            return
        if self.credit <= 0:
            self.waiting = True
            return
        if self.connection.unsent_size > HIGH_WATER:
            self.connection.paused.append(lambda: self.guest.soon(self.step))
            return
        try:
            sent = self.forward(min(CHUNK, self.credit, self.left))
        except OSError as error:
            self.end(error)
            return
        self.credit -= sent
        self.left -= sent
        if self.unsized and self.left == 0:
            self.end(OSError(errno.EFBIG, ""))
        elif not sent or self.left == 0:
            self.end(None)
        else:
            self.guest.soon(self.step)

    def forward(self, size: int) -> int:
        """Send some of the rest to the host, and return how much."""
        if self.left >= MUCH and not self.unsized:
            moved = self.connection.send_moved(DATA, self.ident, self.fd, size)
            if moved:
                return moved
        data = os.read(self.fd, size)
        if data:
            self.connection.send(DATA, self.ident, data)
        return len(data)

    def credited(self, n: int) -> None:
        self.credit += n
        if self.waiting:
            self.waiting = False
            self.guest.soon(self.step)

    def end(self, error: Optional[OSError]) -> None:
        self.guest.private.discard(self.fd)
        os.close(self.fd)
        self.fd = -1
        self.connection.operations.pop(self.ident, None)
        self.guest.answer(self.connection, self.ident, error)

    def abort(self) -> None:
        if self.fd >= 0:
            self.end(OSError(errno.ECANCELED, "aborted"))


class Writer:
    """A file on its way from the host: a hidden neighbour that replaces the target at the end."""

    def __init__(self, guest: Guest, connection: Connection, ident: int, request: Any) -> None:
        self.guest = guest
        self.connection = connection
        self.ident = ident
        self.fd = -1
        path = guest.path(request[b"path"])
        folder, name = os.path.split(path)
        os.stat(folder)
        if name in (b"", b".", b".."):
            raise OSError(errno.EISDIR, "")
        # Through links, so that a link stays one; the new content appears where it points.
        target = os.path.realpath(path)
        self.target = target
        self.owner: Optional[Tuple[int, int]] = None
        mode = int(request[b"mode"])
        self.mode = mode if mode >= 0 else 0o666 & ~guest.umask
        self.mtime = int(request[b"mtime"])
        try:
            info = os.stat(target)
        except FileNotFoundError:
            pass
        else:
            must_be_regular(info)
            if not os.access(target, os.W_OK):
                raise OSError(errno.EACCES, "")
            if mode < 0:
                self.mode = info.st_mode & 0o7777
            if (info.st_uid, info.st_gid) != (os.geteuid(), os.getegid()):
                self.owner = info.st_uid, info.st_gid
        name = b".sandboxio-%d-%d" % (id(connection), ident)
        self.temporary = os.path.join(os.path.dirname(target), name)
        self.written = 0  # and not credited yet
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd = os.open(self.temporary, flags, 0o600)
        guest.private.add(self.fd)

    def move_from(self, fd: int, size: int) -> int:
        """Write of a pipe, at most `size` bytes, and return how much; 0 if they have to be read."""
        if self.fd < 0:
            return 0
        try:
            moved: int = os.splice(fd, self.fd, size, flags=os.SPLICE_F_NONBLOCK)
        except OSError:
            return 0  # reading and writing says what it was
        self.has_written(moved)
        return moved

    def on_data(self, part: memoryview) -> None:
        if self.fd < 0:
            return
        size = len(part)
        try:
            while part:
                part = part[os.write(self.fd, part) :]
        except OSError as error:
            self.end(error)
            return
        self.has_written(size)

    def has_written(self, size: int) -> None:
        self.written += size
        if self.written >= WRITE_WINDOW // 4:  # its host has more than that to spend
            self.connection.send(CREDIT, self.ident, {"n": self.written})
            self.written = 0

    def on_end(self) -> None:
        try:
            if self.owner is not None:
                self.keep_owner(*self.owner)
            os.fchmod(self.fd, self.mode)
            if self.mtime >= 0:
                os.utime(self.fd, ns=(self.mtime * 1000000, self.mtime * 1000000))
            os.rename(self.temporary, self.target)
        except OSError as error:
            self.end(error)
            return
        self.end(None)

    def keep_owner(self, uid: int, gid: int) -> None:
        try:
            os.fchown(self.fd, uid, gid)
        except PermissionError:
            pass  # who may replace a file may not always give one away

    def end(self, error: Optional[OSError]) -> None:
        if self.fd < 0:
            return
        self.guest.private.discard(self.fd)
        os.close(self.fd)
        self.fd = -1
        if error is not None:
            try:
                os.unlink(self.temporary)
            except OSError:
                pass  # it was removed from inside
        self.connection.operations.pop(self.ident, None)
        self.guest.answer(self.connection, self.ident, error)

    def abort(self) -> None:
        self.end(OSError(errno.ECANCELED, "aborted"))


class Walk:
    """A listing or a removal, done in slices so that others get their turn."""

    def __init__(
        self, guest: Guest, connection: Connection, ident: int, steps: Iterator[None]
    ) -> None:
        self.guest = guest
        self.connection = connection
        self.ident = ident
        self.steps: Optional[Iterator[None]] = steps
        guest.soon(self.step)

    def step(self) -> None:
        if self.steps is None:
            return
        if self.connection.unsent_size > HIGH_WATER:
            self.connection.paused.append(lambda: self.guest.soon(self.step))
            return
        try:
            next(self.steps)
        except StopIteration:
            self.end(None)
        except OSError as error:
            self.end(error)
        else:
            self.guest.soon(self.step)

    def end(self, error: Optional[OSError]) -> None:
        self.steps = None
        self.connection.operations.pop(self.ident, None)
        self.guest.answer(self.connection, self.ident, error)

    def abort(self) -> None:
        if self.steps is not None:
            self.end(OSError(errno.ECANCELED, "aborted"))


def entry(name: bytes, info: os.stat_result) -> List[Any]:
    return [name, info.st_size, info.st_mode, int(info.st_mtime * 1000)]


def list_directory(connection: Connection, ident: int, path: bytes) -> Iterator[None]:
    entries: List[Any] = []
    size = 0
    with os.scandir(path) as scan:
        for item in scan:
            try:
                entries.append(entry(item.name, item.stat(follow_symlinks=False)))
            except FileNotFoundError:
                continue  # removed since it was listed
            size += len(item.name)
            if len(entries) >= SLICE or size > 65536:
                connection.send(ENTRIES, ident, {"e": entries})
                entries, size = [], 0
                yield
    connection.send(ENTRIES, ident, {"e": entries})


def remove_tree(path: bytes, protected: bytes) -> Iterator[None]:
    """Remove a path and all below it, without following links and without recursion.

    Not what `protected` is in.
    """
    path = path.rstrip(b"/")  # or a link to a directory would be taken for the directory
    parent, name = os.path.split(path)
    whole = os.path.join(os.path.realpath(parent), name)
    if name in (b"", b".", b"..") or protected == whole or protected.startswith(whole + b"/"):
        raise OSError(errno.EBUSY, "")
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    todo = [path]
    done = 0
    while todo:
        folder = todo[-1]
        folders: List[bytes] = []
        with os.scandir(folder) as scan:
            for item in scan:
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                else:
                    os.unlink(item.path)
                done += 1
                if done % SLICE == 0:
                    yield
        if folders:
            todo += folders
        else:
            os.rmdir(todo.pop())


def make_directory(path: bytes, parents: bool) -> None:
    if not parents:
        os.mkdir(path)
        return
    missing: List[bytes] = []
    path = path.rstrip(b"/") or b"/"
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path).rstrip(b"/") or b"/"
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise OSError(errno.EEXIST if folder == missing[0] else errno.ENOTDIR, "") from None


# --------------------------------------------------------------------------- the loop


class Guest:
    """The loop, and what all connections share."""

    def __init__(self, options: Dict[str, str]) -> None:
        import ctypes

        # Not `signal`: its enums double the time of a start, and here is all that it does.
        signals: Any = __import__("_signal")
        self.signals = signals
        self.libc: Any = ctypes.CDLL(None, use_errno=True)
        self.private: Set[int] = set()  # descriptors that no command may inherit, even unexecuted
        self.handlers: Dict[int, Callable[[int], None]] = {}
        self.interests: Dict[int, int] = {}
        self.timers: Dict[Any, Tuple[float, Callable[[], None]]] = {}
        self.runnable: List[Callable[[], None]] = []
        self.supervisors: Dict[int, Command] = {}
        self.bereaved: List[Command] = []  # those whose supervisor was killed
        self.pid = os.getpid()
        self.resource: Any = None
        self.nofile: Optional[Tuple[int, int]] = None  # what commands get, once the guest has more
        self.env: Dict[bytes, bytes] = dict(os.environb)
        self.env.pop(b"PWD", None)  # what started the guest set it, for a directory of its own
        self.secret_names: List[bytes] = []
        self.workdir = b"/"
        self.lease = True
        self.ends_at = float("inf")
        self.umask = os.umask(0o022)
        os.umask(self.umask)
        self.epoll = select.epoll()
        self.private.add(self.epoll.fileno())
        self.become(options.get("user", ""), options.get("own", ""))
        # A supervisor puts what it needs on these four, over what the guest has there.
        while True:
            fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            if fd > 3:
                os.close(fd)
                break
        try:
            self.weight_fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            self.private.add(self.weight_fd)
            self.weigh(b"0")
        except OSError:
            self.weight_fd = -1
        # Code in the sandbox has the same user; it shall neither trace the guest nor read its memory.
        self.prctl(PR_SET_DUMPABLE, 0)
        self.prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Some kernels accept that and do nothing: they do not have the question.
        answer = ctypes.c_int(0)
        asked = self.libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
        self.subreaper = asked == 0 and answer.value == 1
        wake_r, wake_w = os.pipe()
        for fd in (wake_r, wake_w):
            os.set_blocking(fd, False)
            self.private.add(fd)
        signals.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signals.signal(signals.SIGCHLD, on_signal)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signals.signal(getattr(signals, name), signals.SIG_IGN)
        signals.pthread_sigmask(signals.SIG_BLOCK, {signals.SIGUSR1})
        self.wake_r = wake_r
        self.watch(wake_r, select.EPOLLIN, self.on_wake)
        self.connections: List[Connection] = []
        self.greet(Connection(self, int(options["in"]), int(options["out"]), primary=True))
        if "listen" in options:
            self.listen(int(options["listen"]))

    def prctl(self, option: int, value: int) -> None:
        self.libc.prctl(option, value, 0, 0, 0)

    def become(self, user: str, own: str) -> None:
        if not user:
            return
        uid, _, gid = user.partition(":")
        for module in ("_socket", "fcntl", "resource"):
            __import__(module)  # the user may not be able to read where Python keeps them
        for folder in filter(None, own.split(":")):
            os.chown(folder, int(uid), int(gid))
        os.setgroups([])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))

    def allow_more_descriptors(self) -> bool:
        """Raise the limit of descriptors as far as it goes, for the guest and not for commands."""
        if self.nofile is not None:
            return False
        import resource

        self.resource = resource
        self.nofile = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return soft != hard

    def weigh(self, weight: bytes) -> None:
        """Set what the kernel adds to this process, and to those forked now, when memory is out.

        Commands get more than the guest has, so that the kernel takes them first.
        """
        if self.weight_fd >= 0:
            os.write(self.weight_fd, weight)

    def listen(self, fd: int) -> None:
        module: Any = __import__("_socket")
        listener = module.socket(fileno=fd)
        listener.setblocking(False)
        self.private.add(fd)

        def on_connect(_events: int) -> None:
            try:
                accepted, _ = listener._accept()
            except OSError:
                return
            os.set_inheritable(accepted, False)
            sock = module.socket(fileno=accepted)
            sock.setsockopt(module.SOL_SOCKET, module.SO_SNDBUF, PIPE_SIZE)
            sock.detach()
            self.greet(Connection(self, accepted, accepted, primary=False))

        self.watch(fd, select.EPOLLIN, on_connect)

    def greet(self, connection: Connection) -> None:
        self.connections.append(connection)
        secrets = [] if connection.primary else [self.env[name] for name in self.secret_names]
        left = self.ends_at - time.monotonic()
        connection.send(
            HELLO,
            0,
            {
                "v": VERSION,
                "pid": os.getpid(),
                "primary": int(connection.primary),
                "workdir": self.workdir,
                "remaining": -1 if left == float("inf") else max(0, int(left * 1000)),
                "secrets": secrets,
            },
        )

    # ----- descriptors, timers

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        self.handlers[fd] = handler
        before = self.interests.get(fd)
        if before is None:
            self.epoll.register(fd, events)
        elif before != events:
            self.epoll.modify(fd, events)
        self.interests[fd] = events

    def unwatch(self, fd: int) -> None:
        if self.interests.pop(fd, None) is not None:
            self.epoll.unregister(fd)
            del self.handlers[fd]

    def close_fd(self, fd: int) -> None:
        self.unwatch(fd)
        self.private.discard(fd)
        os.close(fd)

    def at(self, key: Any, when: float, action: Callable[[], None]) -> None:
        self.timers[key] = (when, action)

    def soon(self, step: Callable[[], None]) -> None:
        self.runnable.append(step)

    def run(self) -> None:
        while True:
            timeout = -1.0
            if self.runnable:
                timeout = 0.0
            elif self.timers:
                timeout = max(0.0, min(when for when, _ in self.timers.values()) - time.monotonic())
            for fd, events in self.epoll.poll(timeout):
                handler = self.handlers.get(fd)
                if handler is not None:
                    handler(events)
            if self.timers:
                now = time.monotonic()
                for key, (when, action) in list(self.timers.items()):
                    if when <= now:
                        del self.timers[key]
                        action()
            steps, self.runnable = self.runnable, []
            for step in steps:
                step()

    # ----- processes

    def on_wake(self, _events: int) -> None:
        os.read(self.wake_r, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            command = self.supervisors.pop(pid, None)
            if command is not None:
                command.on_supervisor_gone(status != 0)

    def kill_strays(self) -> None:
        """Kill what killed supervisors left to the guest; again until nothing of it is left."""
        strays = [pid for pid in own_children() if pid not in self.supervisors]
        if strays:
            kill_trees(strays, self.signals)
            # They are zombies now; what they left in turn is a child of the guest by then.
            self.at("strays", time.monotonic() + STRAY_PAUSE, self.kill_strays)
            return
        bereaved, self.bereaved = self.bereaved, []
        for command in bereaved:
            command.on_tree_gone()

    def free_space(self) -> List[int]:
        """Return how many blocks are free where a command may write."""
        free: List[int] = []
        for place in (self.workdir, b"/tmp"):
            try:
                free.append(os.statvfs(place).f_bavail)
            except OSError:
                free.append(0)
        return free

    # ----- frames

    def path(self, path: bytes) -> bytes:
        return os.path.join(self.workdir, path)

    def answer(self, connection: Connection, ident: int, error: Optional[OSError]) -> None:
        if error is None:
            connection.send(DONE, ident)
        else:
            what = os.strerror(error.errno or 0)
            connection.send(FAIL, ident, {"errno": error.errno or 0, "what": what})

    def on_frame(self, connection: Connection, kind: int, ident: int, payload: bytes) -> None:
        operation = connection.operations.get(ident)
        request: Any = decode(payload) if payload else {}
        if kind == INIT:
            self.on_init(connection, request)
        elif kind in (START, READ, WRITE, STAT, LS, MKDIR, REMOVE):
            try:
                self.begin(connection, kind, ident, request)
            except OSError as error:
                self.answer(connection, ident, error)
        elif operation is None:
            pass  # it ended while this frame was on its way
        elif kind == CREDIT:
            operation.credited(request[b"n"])
        elif kind == STDIN_EOF:
            operation.on_stdin_eof()
        elif kind == SIGNAL:
            operation.signal(request[b"signum"])
        elif kind == END:
            operation.on_end()
        elif kind in (KILL, ABORT):
            operation.abort()

    def on_content(self, connection: Connection, kind: int, ident: int, part: memoryview) -> None:
        operation = connection.operations.get(ident)
        if operation is not None:
            try:
                (operation.on_stdin if kind == STDIN else operation.on_data)(part)
            except (ValueError, LookupError, TypeError, AttributeError):
                connection.close()  # no host of ours sends that

    def begin(self, connection: Connection, kind: int, ident: int, request: Any) -> None:
        if kind in (START, READ, WRITE):
            make = {START: Command, READ: Reader, WRITE: Writer}[kind]
            connection.operations[ident] = make(self, connection, ident, request)
            return
        path = self.path(request[b"path"])
        if kind == LS:
            steps = list_directory(connection, ident, path)
            connection.operations[ident] = Walk(self, connection, ident, steps)
        elif kind == REMOVE:
            os.lstat(path)
            steps = remove_tree(path, os.path.realpath(self.workdir))
            connection.operations[ident] = Walk(self, connection, ident, steps)
        elif kind == MKDIR:
            make_directory(path, bool(request[b"parents"]))
            self.answer(connection, ident, None)
        else:
            connection.send(ENTRIES, ident, {"e": [entry(path, os.lstat(path))]})
            self.answer(connection, ident, None)

    def on_init(self, connection: Connection, request: Any) -> None:
        if connection.ready:
            return
        connection.ready = True
        self.env.update(request[b"env"])
        self.secret_names = request[b"secrets"]
        try:
            os.chdir(request[b"workdir"])
        except OSError as error:
            self.answer(connection, 0, error)
            return
        self.workdir = request[b"workdir"]
        self.lease = bool(request[b"lease"])
        lifetime = int(request[b"lifetime"]) / 1000
        self.ends_at = time.monotonic() + lifetime
        self.at(self, self.ends_at, self.on_lifetime)
        connection.send(READY, 0)

    def on_lifetime(self) -> None:
        for connection in list(self.connections):  # one that is broken leaves it
            connection.send(BYE, 0, {"reason": "lifetime"})
        self.at(self, time.monotonic() + LAST_WORDS, self.end)

    def on_closed(self, connection: Connection) -> None:
        self.connections.remove(connection)
        if connection.primary and (self.lease or not connection.ready):
            self.end()

    def end(self) -> None:
        if os.getpid() != 1:
            stop = time.monotonic() + KILL_BOUND
            while time.monotonic() < stop:
                kill_descendants(self.signals)
                try:
                    os.waitpid(-1, 0)
                except ChildProcessError:
                    break
        os._exit(0)


def on_signal(_signum: int, _frame: object) -> None:
    """Do nothing: a signal without a handler would not write to the wakeup descriptor."""


def main(arguments: List[str]) -> None:
    """Serve until the lease or the lifetime ends."""
    options: Dict[str, str] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        options[name] = value
    guest = Guest(options)
    # A collection after a fork would copy every page that it visits.
    gc.collect()
    gc.freeze()
    guest.run()


if __name__ == "__main__":
    main(sys.argv[1:])
