"""The commands that the contract suite runs inside a sandbox, one method for each behaviour.

They need `/bin/sh` and the small tools that busybox and coreutils have in common. For an image
without them, subclass `Probes` and return other commands that behave the same.
"""

from __future__ import annotations

__all__ = ["Probes"]

Argv = list[str]

_REACH = """
import socket, sys
kind, host, port, token = sys.argv[1:5]
try:
    if kind == "name":
        socket.getaddrinfo(host, 80)
        answer = token
    else:
        if kind == "abstract":
            family, address = socket.AF_UNIX, "\\0" + host
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            address = (host, int(port))
        with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as s:
            s.settimeout(3)
            s.connect(address)
            s.sendall(token.encode())
            answer = token if kind == "connect" else s.recv(100).decode()
except OSError as error:
    print("not reached:", error)
    sys.exit(9)
print("reached" if answer == token else "another answer")
"""

_SERVE = """
import socket, sys
with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(listener.getsockname()[1]))
    import os
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(100))
"""

_RAW = """
import socket, sys
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
except OSError as error:
    print("refused:", error)
    sys.exit(9)
print("opened")
"""

_BEAT = 'while :; do echo >> "$1"; sleep 0.02; done'


def _sh(script: str, *arguments: str) -> Argv:
    return ["/bin/sh", "-c", script, "probe", *arguments]


def _escaped(data: bytes) -> str:
    """Return a format for `printf` that prints exactly these bytes."""
    return "".join(f"\\{byte:03o}" for byte in data)


class Probes:
    """Commands for a POSIX image; what each must do is its docstring.

    A path is relative to the working directory of the sandbox. A *heartbeat* appends a byte to a
    file about every 20 ms for as long as it lives, so that its death can be seen from outside.
    """

    shell_text: str = "printf %s $((6 * 7))"
    """A text for a shell, which prints 42 and nothing else."""

    missing_program: str = "sandboxio-no-such-program"
    """A name that no program has."""

    not_executable: str = "/etc/passwd"
    """A file that exists and cannot be executed."""

    endless_file: str = "/dev/zero"
    """A path that can be read without an end."""

    device: str = "/dev/null"
    """A device that can be written."""

    # ----- ending and printing

    def exit(self, code: int) -> Argv:
        """Print nothing and end with an exit code."""
        return _sh('exit "$1"', str(code))

    def die_of(self, signum: int) -> Argv:
        """End by a signal that the command sends to itself."""
        return _sh('kill "-$1" $$', str(signum))

    def say(self, stdout: bytes = b"", stderr: bytes = b"", code: int = 0) -> Argv:
        """Print exactly these bytes and end with an exit code."""
        script = 'printf "$1"; printf "$2" >&2; exit "$3"'
        return _sh(script, _escaped(stdout), _escaped(stderr), str(code))

    def say_in_turn(self, *pieces: tuple[str, bytes]) -> Argv:
        """Write each piece to its stream (``"stdout"``, ``"stderr"``), one write after another."""
        script = 'while [ $# -gt 0 ]; do if [ "$1" = stdout ]; then printf "$2"; else printf "$2" >&2; fi; shift 2; done'
        arguments = [part for stream, data in pieces for part in (stream, _escaped(data))]
        return _sh(script, *arguments)

    def repeat(self, text: str, count: int, stream: str = "stdout") -> Argv:
        """Print `text` `count` times in one line that does not end."""
        redirect = ">&2" if stream == "stderr" else ""
        return _sh(f'yes "$1" | head -n "$2" | tr -d "\\n" {redirect}', text, str(count))

    def flood_both(self, size: int, last_words: bytes, code: int) -> Argv:
        """Print `size` times ``o`` on stdout and ``e`` on stderr, `last_words` on stderr, and end."""
        script = (
            'yes o | head -n "$1" | tr -d "\\n"; yes e | head -n "$1" | tr -d "\\n" >&2; '
            'printf "$2" >&2; exit "$3"'
        )
        return _sh(script, str(size), _escaped(last_words), str(code))

    def count_up(self, last: int) -> Argv:
        """Print the numbers from 1 to `last`, one in a line."""
        return ["seq", "1", str(last)]

    def show_arguments(self, *arguments: str) -> Argv:
        """Print each argument (at least one), followed by a NUL."""
        return ["printf", "%s\\0", *arguments]

    def show_environment(self) -> Argv:
        """Print each variable of its environment as ``NAME=value``, followed by a NUL."""
        return ["cat", "/proc/self/environ"]

    def show_directory(self) -> Argv:
        """Print the absolute path of its working directory, and a newline."""
        return ["pwd"]

    def copy_stdin(self) -> Argv:
        """Print what it reads from stdin, to the end."""
        return ["cat"]

    def count_stdin(self) -> Argv:
        """Read stdin to the end and print how many bytes came."""
        return ["wc", "-c"]

    def impatient_reader(self) -> Argv:
        """Run an endless writer into a reader that takes one line; print that line, ``y``."""
        return _sh("yes | head -n 1")

    # ----- files

    def show_file(self, path: str) -> Argv:
        """Print the content of a file; end with another code than 0 if there is none."""
        return ["cat", "--", path]

    def size_of(self, path: str) -> Argv:
        """Print the size of a file in bytes; ``0`` if it does not exist."""
        return _sh('if [ -f "$1" ]; then wc -c < "$1"; else echo 0; fi', path)

    def is_there(self, path: str) -> Argv:
        """End with 0 if anything, even a dangling link, is at that path, and with 1 if not."""
        return _sh('[ -e "$1" ] || [ -L "$1" ]', path)

    def write_file(self, path: str, text: str) -> Argv:
        """Write a file."""
        return _sh('printf %s "$2" > "$1"', path, text)

    def append_to_file(self, path: str, text: str) -> Argv:
        """Append to a file."""
        return _sh('printf %s "$2" >> "$1"', path, text)

    def list_names(self, directory: str) -> Argv:
        """Print the names in a directory, hidden ones included, one in a line."""
        return ["ls", "-A", "--", directory]

    def make_pipe(self, path: str) -> Argv:
        """Make a named pipe."""
        return ["mkfifo", path]

    def link(self, target: str, path: str) -> Argv:
        """Make a symbolic link at `path` that points to `target`."""
        return ["ln", "-s", "--", target, path]

    def change_mode(self, mode: str, path: str) -> Argv:
        """Set the permission bits of a file."""
        return ["chmod", mode, path]

    def mode_of(self, path: str) -> Argv:
        """Print the permission bits of a file in octal, such as ``640``."""
        return ["stat", "-c", "%a", "--", path]

    def make_many(self, directory: str, count: int) -> Argv:
        """Make a directory with empty files named ``1`` to `count`."""
        script = 'mkdir "$1" && cd "$1" && seq 1 "$2" | xargs touch'
        return _sh(script, directory, str(count))

    # ----- time and processes

    def sleep(self, seconds: float) -> Argv:
        """Do nothing for some time."""
        return ["sleep", f"{seconds:g}"]

    def beat(self, path: str) -> Argv:
        """Be a heartbeat, without an end."""
        return _sh(_BEAT, path)

    def beat_stubbornly(self, path: str) -> Argv:
        """Be a heartbeat that ignores every signal that can be ignored."""
        return _sh(f"trap '' TERM INT HUP QUIT; {_BEAT}", path)

    def say_and_beat(self, stdout: bytes, stderr: bytes, path: str) -> Argv:
        """Print something and then be a heartbeat."""
        return _sh(f'printf "$2"; printf "$3" >&2; {_BEAT}', path, *map(_escaped, (stdout, stderr)))

    def beat_as_a_family(self, main: str, child: str, grandchild: str) -> Argv:
        """Be three heartbeats: the command, its child, and a grandchild in a session of its own.

        The grandchild's parent has ended, so that it belongs to nobody.
        """
        script = (
            'beat() { while :; do echo >> "$1"; sleep 0.02; done; }; '
            'beat "$2" & (setsid /bin/sh -c "$4" probe "$3" &) ; beat "$1"'
        )
        return _sh(script, main, child, grandchild, _BEAT)

    def leave_a_heartbeat(self, path: str, stdout: bytes, code: int = 0) -> Argv:
        """Start a heartbeat in the background that keeps stdout and stderr open, print, and end."""
        return _sh(f'({_BEAT}) & printf "$2"; exit "$3"', path, _escaped(stdout), str(code))

    def leave_a_daemon(self, path: str) -> Argv:
        """Start a heartbeat in the background with its streams closed, and end."""
        return _sh(f"({_BEAT}) < /dev/null > /dev/null 2>&1 &", path)

    def say_around(self, before: bytes, path: str, after: bytes) -> Argv:
        """Print `before`, wait until the file `path` exists, print `after` and end."""
        script = 'printf "$2"; while [ ! -e "$1" ]; do sleep 0.02; done; printf "$3"'
        return _sh(script, path, _escaped(before), _escaped(after))

    def flood_in_steps(self, steps: int, path: str) -> Argv:
        """Append a byte to a file, and print `steps` MiB, with another byte after each was taken."""
        script = (
            'echo >> "$2"; i=0; while [ "$i" -lt "$1" ]; do '
            'head -c 1048576 /dev/zero; echo >> "$2"; i=$((i + 1)); done'
        )
        return _sh(script, str(steps), path)

    def answer_signal(self, signum: int, ready: bytes, code: int) -> Argv:
        """Print `ready`, and end with `code` when a signal arrives."""
        script = 'trap "exit $3" "$1"; printf "$2"; while :; do sleep 0.02; done'
        return _sh(script, str(signum), _escaped(ready), str(code))

    # ----- using things up

    def use_memory(self, megabytes: int) -> Argv:
        """Hold that many MiB in one process at once, and end with 0 if that was possible."""
        # Without a newline in what it reads, tail has to keep all of it.
        return _sh('head -c "$1" /dev/zero | tail -n 1 > /dev/null', str(megabytes << 20))

    def start_processes(self, count: int) -> Argv:
        """Start that many processes that live at the same time, and end with 0 if all started.

        They end by themselves within a few seconds.
        """
        script = 'i=0; while [ "$i" -lt "$1" ]; do sleep 2 & i=$((i + 1)); done; exit 0'
        return _sh(script, str(count))

    def use_disk(self, path: str, megabytes: int) -> Argv:
        """Write a file of that many MiB, and end with 0 if that was possible."""
        return _sh('head -c "$1" /dev/zero > "$2"', str(megabytes << 20), path)

    # ----- looking around

    def reach(self, kind: str, host: str, port: int, token: str) -> Argv:
        """Send `token` somewhere, and print ``reached`` if it is echoed; else end with 9.

        `kind` is ``tcp``, ``udp``, ``abstract`` (a Unix socket of that name in the abstract
        namespace), ``connect`` (reached if the connection is taken), or ``name`` (reached if the
        name of the host is resolved). The suite also runs this command outside, as a proof that it
        can reach what the sandbox must not.
        """
        return ["python3", "-c", _REACH, kind, host, str(port), token]

    def serve(self, path: str) -> Argv:
        """Echo on a TCP port of the sandbox's own 127.0.0.1, and write its number to a file."""
        return ["python3", "-c", _SERVE, path]

    def find_by_name(self, name: str) -> Argv:
        """Print the path of every file of that name that can be seen, ``/proc`` and ``/sys`` aside."""
        script = (
            'find / \\( -path /proc -o -path /sys \\) -prune -o -name "$1" -print 2> /dev/null; :'
        )
        return _sh(script, name)

    def commands_with(self, marker: str) -> Argv:
        """Print a line for every process that can be seen whose command line has the marker.

        The marker is given in two halves, so that the probe does not find itself.
        """
        half = len(marker) // 2
        script = 'grep -l -a -e "$1""$2" /proc/[0-9]*/cmdline 2> /dev/null; :'
        return _sh(script, marker[:half], marker[half:])

    def environments_with(self, marker: str) -> Argv:
        """Print a line for every process that can be seen whose environment has the marker."""
        half = len(marker) // 2
        script = 'grep -l -a -e "$1""$2" /proc/[0-9]*/environ 2> /dev/null; :'
        return _sh(script, marker[:half], marker[half:])

    def mount(self, path: str) -> Argv:
        """Try to mount a file system over a directory; end with 0 if that was possible."""
        return _sh('mkdir -p "$1" && mount -t tmpfs none "$1"', path)

    def make_user_namespace(self) -> Argv:
        """Try to enter a user namespace of its own; end with 0 if that was possible."""
        return ["unshare", "-U", "true"]

    def open_raw_socket(self) -> Argv:
        """Try to open a raw socket; print ``opened`` if that was possible, else end with 9."""
        return ["python3", "-c", _RAW]

    def show_privileges(self) -> Argv:
        """Print the lines of ``/proc/self/status``, which tell capabilities and no-new-privileges."""
        return ["cat", "/proc/self/status"]
