"""Stands in for E2B's ``envd`` inside one sandbox: processes, terminals and the file system.

One JSON object per line comes in on stdin and goes out on stdout. A request has an ``id`` and an
``op``; it is answered once, with ``ok`` or with ``error``. Events of processes come unasked, with
the ``pid``. What envd does is done here as it does it, flaws included: a signal reaches one
process and not its children, commands share one process group, and a background child that holds
a pipe keeps its command "running".
"""

from __future__ import annotations

import asyncio
import base64
import errno
import fcntl
import json
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import termios
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

HOME = "/home/user"
PIPE_CHUNK = 32 * 1024  # bytes of output in one event, as envd sends them
PTY_CHUNK = 16 * 1024
SIGNALS = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}


class Refused(Exception):
    """A request that is answered with a Connect error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def emit(message: dict[str, Any]) -> None:
    """Write one line; blocks while the server does not read, which it always does."""
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


class Input:
    """The writing end of a process's stdin, or a terminal."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.waiting: deque[tuple[memoryview, asyncio.Future[None]]] = deque()
        self.closing = False

    def put(self, data: bytes) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((memoryview(data), done))
        self.flush()
        return done

    def flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self.waiting and self.fd >= 0:
            data, done = self.waiting[0]
            try:
                written = os.write(self.fd, data) if data else 0
            except BlockingIOError:
                loop.add_writer(self.fd, self.flush)
                return
            except OSError:  # it closed its stdin; envd reports that as an internal error
                self.close()
                return
            if written < len(data):
                self.waiting[0] = (data[written:], done)
                continue
            self.waiting.popleft()
            if not done.done():
                done.set_result(None)
        if self.fd >= 0:
            loop.remove_writer(self.fd)
        if self.closing:
            self.close()

    def close(self) -> None:
        if self.fd >= 0:
            asyncio.get_running_loop().remove_writer(self.fd)
            os.close(self.fd)
            self.fd = -1
        for _, done in self.waiting:
            if not done.done():
                done.set_exception(Refused("internal", "error writing to stdin: broken pipe"))
        self.waiting.clear()


class Process:
    """One process that was started, and what it writes."""

    def __init__(self, request: dict[str, Any]) -> None:
        config = request["process"]
        cwd = directory(config.get("cwd", ""))
        env = {**os.environ, "HOME": HOME, "USER": "user", "LOGNAME": "user"}
        env |= request["envs"] | config.get("envs", {}) | {"PWD": cwd}
        argv = [config["cmd"], *config.get("args", [])]
        if any("\0" in word for word in [*argv, *env, *env.values()]):
            raise Refused("invalid_argument", "error starting process: invalid argument")
        self.input: Input | None = None
        self.readers: dict[int, tuple[str, int]] = {}
        self.paused = False
        try:
            if "pty" in request:
                self.terminal(argv, env, cwd, request["pty"].get("size", {}))
            else:
                self.pipes(argv, env, cwd, bool(request.get("stdin")))
        except (OSError, ValueError) as error:
            raise Refused("invalid_argument", f"error starting process: {error}") from error
        self.pid = self.popen.pid
        self.pidfd = os.pidfd_open(self.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(self.pidfd, self.on_exit)
        self.resume()

    def pipes(self, argv: list[str], env: dict[str, str], cwd: str, stdin: bool) -> None:
        self.popen = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        for name in ("stdout", "stderr"):
            pipe: Any = getattr(self.popen, name)
            fd = os.dup(pipe.fileno())
            pipe.close()
            os.set_blocking(fd, False)
            self.readers[fd] = (name, PIPE_CHUNK)
        if stdin:
            assert self.popen.stdin is not None
            fd = os.dup(self.popen.stdin.fileno())
            self.popen.stdin.close()
            os.set_blocking(fd, False)
            self.input = Input(fd)

    def terminal(self, argv: list[str], env: dict[str, str], cwd: str, size: Any) -> None:
        ours, theirs = pty.openpty()
        resize(ours, size)

        def become_leader() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.popen = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=become_leader,
        )
        os.close(theirs)
        os.set_blocking(ours, False)
        self.readers[ours] = ("pty", PTY_CHUNK)
        self.input = Input(os.dup(ours))

    def resume(self) -> None:
        self.paused = False
        for fd in self.readers:
            asyncio.get_running_loop().add_reader(fd, self.on_readable, fd)

    def pause(self) -> None:
        self.paused = True
        for fd in self.readers:
            asyncio.get_running_loop().remove_reader(fd)

    def on_readable(self, fd: int) -> None:
        name, size = self.readers[fd]
        try:
            data = os.read(fd, size)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose last user has gone
            data = b""
        if data:
            emit({"pid": self.pid, "data": {name: base64.b64encode(data).decode()}})
            return
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        del self.readers[fd]
        self.finish()

    def on_exit(self) -> None:
        if self.popen.poll() is None:
            return
        asyncio.get_running_loop().remove_reader(self.pidfd)
        os.close(self.pidfd)
        self.finish()

    def finish(self) -> None:
        code = self.popen.returncode
        if code is None or self.readers:
            return
        if self.input is not None:
            self.input.close()
        if code < 0:
            text = f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"
            end: dict[str, Any] = {"exitCode": -1, "status": text, "error": text}
        else:
            end = {"exited": True, "status": f"exit status {code}"}
            if code:
                end |= {"exitCode": code, "error": end["status"]}
        emit({"pid": self.pid, "end": end})
        del processes[self.pid]


processes: dict[int, Process] = {}


def directory(path: str) -> str:
    """Return a directory to start in, or refuse."""
    full = expand(path or HOME)
    if not os.path.isdir(full):
        raise Refused("invalid_argument", f"cwd '{full}' does not exist")
    return full


def expand(path: str) -> str:
    """Return an absolute path as envd makes it."""
    if path == "~" or path.startswith("~/"):
        return os.path.normpath(HOME + path[1:])
    if path.startswith("~"):
        raise Refused("invalid_argument", f"cannot expand user-specific home dir: '{path}'")
    return os.path.normpath(os.path.join(HOME, path))


def resize(fd: int, size: Any) -> None:
    """Set a terminal's size."""
    packed = struct.pack("HHHH", size.get("rows", 24), size.get("cols", 80), 0, 0)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, packed)


def running(request: dict[str, Any]) -> Process:
    """Return the process that a request selects."""
    pid = request.get("pid", 0)
    if pid not in processes:
        raise Refused("not_found", f"process with pid {pid} not found")
    return processes[pid]


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Start a process."""
    process = Process(request)
    processes[process.pid] = process
    return {"pid": process.pid}


async def send_input(request: dict[str, Any]) -> dict[str, Any]:
    """Write to a process; answers when it has taken everything."""
    process = running(request)
    kind = "stdin" if "stdin" in request["input"] else "pty"
    if process.input is None or process.input.fd < 0 or process.input.closing:
        raise Refused("internal", "error writing to stdin: stdin not enabled or closed")
    await process.input.put(base64.b64decode(request["input"].get(kind, "")))
    return {}


def close_stdin(request: dict[str, Any]) -> dict[str, Any]:
    """Close a process's stdin once what was sent before is written."""
    process = running(request)
    if process.input is not None:
        process.input.closing = True
        process.input.flush()
    return {}


def send_signal(request: dict[str, Any]) -> dict[str, Any]:
    """Signal one process."""
    process = running(request)
    if process.popen.poll() is None:
        os.kill(process.pid, SIGNALS[request["signal"]])
    return {}


def update(request: dict[str, Any]) -> dict[str, Any]:
    """Resize a process's terminal."""
    process = running(request)
    for fd, (name, _) in process.readers.items():
        if name == "pty":
            resize(fd, request.get("pty", {}).get("size", {}))
    return {}


def hold(request: dict[str, Any]) -> dict[str, Any]:
    """Stop or go on reading what a process writes; the server's own flow control."""
    process = processes.get(request["pid"])
    if process is not None and process.paused is not request["pause"]:
        (process.pause if request["pause"] else process.resume)()
    return {}


def entry(path: str) -> dict[str, Any]:
    """Describe a path as envd does: a link has its target's type."""
    info = os.lstat(path)
    link = stat.S_ISLNK(info.st_mode)
    described: dict[str, Any] = {
        "name": os.path.basename(path) or "/",
        "path": path,
        "mode": stat.S_IMODE(info.st_mode),
        "permissions": ("L" if link else "") + stat.filemode(info.st_mode)[1 if link else 0 :],
        "owner": "user",
        "group": "user",
        "modifiedTime": datetime.fromtimestamp(info.st_mtime, UTC)
        .isoformat()
        .replace("+00:00", "Z"),
    }
    if info.st_size:
        described["size"] = str(info.st_size)
    if link:
        described["symlinkTarget"] = os.path.realpath(path)
    try:
        info = os.stat(path)
    except OSError:
        return described
    if stat.S_ISDIR(info.st_mode):
        described["type"] = "FILE_TYPE_DIRECTORY"
    elif stat.S_ISREG(info.st_mode):
        described["type"] = "FILE_TYPE_FILE"
    return described


def do_stat(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``Stat``."""
    path = expand(request.get("path", ""))
    if not os.path.lexists(path):
        raise Refused("not_found", f"file not found: {path}")
    return {"entry": entry(path)}


def list_dir(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``ListDir``, down to the depth that was asked for."""
    top = expand(request.get("path", ""))
    if not os.path.lexists(top):
        raise Refused("not_found", f"path not found: {top}")
    if not os.path.isdir(top):
        raise Refused("invalid_argument", f"path is not a directory: {top}")
    found: list[dict[str, Any]] = []
    todo = [(top, request.get("depth") or 1)]
    while todo:
        folder, depth = todo.pop()
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            found.append(entry(path))
            if depth > 1 and os.path.isdir(path) and not os.path.islink(path):
                todo.append((path, depth - 1))
    return {"entries": found} if found else {}


def make_dir(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``MakeDir``."""
    path = expand(request.get("path", ""))
    if os.path.isdir(path):
        raise Refused("already_exists", f"directory already exists: {path}")
    if os.path.lexists(path):
        raise Refused("invalid_argument", f"path already exists but it is not a directory: {path}")
    os.makedirs(path)
    return {"entry": entry(path)}


def move(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``Move``."""
    source, target = (expand(request.get(key, "")) for key in ("source", "destination"))
    if not os.path.lexists(source):
        raise Refused("not_found", f"source file not found: {source}")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)
    return {"entry": entry(target)}


def remove(request: dict[str, Any]) -> dict[str, Any]:
    """Answer ``Remove``: a path and all below it; a missing one is fine."""
    import shutil

    path = expand(request.get("path", ""))
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    return {}


def parents(request: dict[str, Any]) -> dict[str, Any]:
    """Prepare an upload: expand its path and make the directories above it."""
    path = expand(request.get("path", ""))
    if os.path.isdir(path):
        raise Refused("invalid_argument", f"path is a directory: {path}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return {"path": path}


def locate(request: dict[str, Any]) -> dict[str, Any]:
    """Prepare a download: expand its path and see that it is a file."""
    path = expand(request.get("path", ""))
    if not os.path.exists(path):
        raise Refused("not_found", f"path '{path}' does not exist")
    if not os.path.isfile(path):
        kind = "a directory" if os.path.isdir(path) else "not a regular file"
        raise Refused("invalid_argument", f"path '{path}' is {kind}")
    return {"path": path}


def metrics(_request: dict[str, Any]) -> dict[str, Any]:
    """Tell what the sandbox uses; as far as its kernel says."""
    memory: dict[str, int] = {}
    with open("/proc/meminfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            memory[name] = int(value.split()[0]) * 1024
    disk = os.statvfs(HOME)
    total, free = memory.get("MemTotal", 0), memory.get("MemAvailable", 0)
    return {
        "cpu_count": os.cpu_count() or 1,
        "mem_total": total,
        "mem_used": total - free,
        "mem_cache": memory.get("Cached", 0),
        "disk_total": disk.f_blocks * disk.f_frsize,
        "disk_used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
    }


OPERATIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "Start": start,
    "SendInput": send_input,
    "CloseStdin": close_stdin,
    "SendSignal": send_signal,
    "Update": update,
    "hold": hold,
    "Stat": do_stat,
    "ListDir": list_dir,
    "MakeDir": make_dir,
    "Move": move,
    "Remove": remove,
    "parents": parents,
    "locate": locate,
    "metrics": metrics,
}


async def answer(request: dict[str, Any]) -> None:
    """Answer one request."""
    ident = request["id"]
    try:
        result = OPERATIONS[request["op"]](request)
        emit({"id": ident, "ok": await result if asyncio.iscoroutine(result) else result})
    except Refused as error:
        emit({"id": ident, "error": {"code": error.code, "message": error.message}})
    except OSError as error:
        code = "internal"
        if error.errno in (errno.ENOENT, errno.ENOTDIR) and request["op"] not in ("MakeDir",):
            code = "not_found"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            code = "permission_denied"
        elif error.errno == errno.ENOSPC:
            code = "resource_exhausted"
        emit({"id": ident, "error": {"code": code, "message": str(error)}})


async def main() -> None:
    """Answer requests until stdin ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()
    emit({"ready": os.getpid()})
    while line := await reader.readline():
        request = json.loads(line)
        if request["op"] == "SendInput":
            # Only this one waits for something; all others are answered in the order they came.
            task = asyncio.create_task(answer(request))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await asyncio.sleep(0)
        else:
            await answer(request)


asyncio.run(main())
