#!/usr/bin/env python3
"""Run a Docker Engine on this machine, and make the images that the tests of the adapter need.

    python3 tools/docker_engine.py start [--install]     unless one answers already
    python3 tools/docker_engine.py images [--install]    make the test images that are missing
    python3 tools/docker_engine.py stop                  the engine that `start` started, no other

`images` prints the lines with which a shell tells the tests of them:

    eval "$(python3 tools/docker_engine.py images)"

All of it as root, and each of them may be said again. `--install` brings the Debian packages that
are missing; without it a missing program is named and nothing is installed. The images are made
from Debian's packages, so no registry is needed:

    sandboxio-test-python:bookworm    Debian with Python
    sandboxio-test-busybox:bookworm   BusyBox alone: no Python, no bash, no coreutils
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PYTHON_IMAGE: Final = "sandboxio-test-python:bookworm"
BUSYBOX_IMAGE: Final = "sandboxio-test-busybox:bookworm"

RUN_FOLDER: Final = Path("/run/sbx-engine")
SYSTEM_PID_FILE: Final = Path("/var/run/docker.pid")

# Which Debian package brings which program.
PACKAGES: Final = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "busybox": "busybox-static",
    "docker-registry": "docker-registry",
    "runsc": "runsc",
}

# A daemon that has to set up its storage and its network for the first time takes a few seconds.
START_SECONDS: Final = 60.0
# It stops its containers first.
STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1

# A network namespace begins with a loopback that is down. Not every machine has the program.
LOOPBACK: Final = 'ip link set lo up 2>/dev/null; exec "$@"'


class EngineError(Exception):
    """The engine or its images could not be made; the message says why."""


@dataclass
class Engine:
    """One Docker daemon: where it keeps its state, and what it is started with.

    Attributes:
        folder: Its pid file and its log; and its data, if `private`.
        host: The address that it listens on and is asked at.
        private: Whether it keeps its data, its containers and its network apart from those of the
            machine's own daemon.
        arguments: What `dockerd` gets besides.
    """

    folder: Path
    host: str = "unix:///var/run/docker.sock"
    private: bool = False
    arguments: list[str] = field(default_factory=list[str])
    daemon: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def pid_file(self) -> Path:
        """Holds the pid of the daemon that `start` started."""
        return self.folder / "dockerd.pid"

    @property
    def log(self) -> Path:
        """What the daemon said."""
        return self.folder / "dockerd.log"

    def pid(self) -> int | None:
        """Return the pid of the daemon that was started here, if it still runs."""
        try:
            pid = int(self.pid_file.read_text(encoding="utf-8"))
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return None
        return pid if name == "dockerd" else None

    def docker(self, *arguments: str, stdin: bytes | None = None) -> str:
        """Run the Docker CLI against this engine and return what it printed."""
        done = subprocess.run(
            ["docker", "--host", self.host, *arguments],
            env={k: v for k, v in os.environ.items() if not k.startswith("DOCKER_")},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise EngineError(f"docker {arguments[0]}: {done.stderr.decode().strip()}")
        return done.stdout.decode()

    def answers(self) -> bool:
        """Return whether it answers."""
        try:
            self.docker("version", "--format", "{{.Server.Version}}")
        except EngineError:
            return False
        return True

    def start(self) -> bool:
        """Start it unless it answers; whether it was started."""
        if self.answers():
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        pid_file = self.folder / "own.pid" if self.private else SYSTEM_PID_FILE
        _remove_stale(pid_file)
        with self.log.open("ab") as log:
            # A session of its own: a signal to this terminal is not meant for the engine.
            # A private one in a network namespace of its own: without a bridge, dockerd removes the
            # machine's docker0.
            apart = ["unshare", "--net", "sh", "-c", LOOPBACK, "sh"] if self.private else []
            daemon = subprocess.Popen(
                [
                    *apart,
                    "dockerd",
                    "--host",
                    self.host,
                    "--pidfile",
                    str(pid_file),
                    *self._options(),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.daemon = daemon
        self.pid_file.write_text(str(daemon.pid), encoding="utf-8")
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if daemon.poll() is not None or time.monotonic() > end:
                tail = self.log.read_text(errors="replace")[-2000:]
                raise EngineError(f"dockerd did not come up; its log ends with:\n{tail}")
            time.sleep(POLL_SECONDS)
        return True

    def _options(self) -> list[str]:
        options = [*self.arguments, "--config-file", str(self.folder / "daemon.json")]
        settings: dict[str, object] = {}
        if runsc := shutil.which("runsc"):
            # Without a network of its own, which it cannot set up on every kernel: sandboxes with
            # egress need another runtime.
            settings["runtimes"] = {"runsc": {"path": runsc, "runtimeArgs": ["--network=none"]}}
        (self.folder / "daemon.json").write_text(json.dumps(settings), encoding="utf-8")
        if self.private:
            options += ["--data-root", str(self.folder / "data")]
            options += ["--exec-root", str(self.folder / "exec")]
            # Its containers have no network, so it writes no rules.
            options += ["--bridge", "none", "--iptables=false", "--ip6tables=false"]
        return options

    def stop(self) -> bool:
        """Stop the daemon that was started here, with its containers; whether there was one."""
        pid = self.pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while _runs(pid):
            if time.monotonic() > end:
                raise EngineError(f"dockerd (pid {pid}) does not stop.")
            time.sleep(POLL_SECONDS)
        if self.daemon is not None:
            self.daemon.wait(timeout=STOP_SECONDS)
            self.daemon = None
        self.pid_file.unlink()
        return True

    def has_image(self, name: str) -> bool:
        """Return whether it has an image of that name."""
        return bool(self.docker("image", "ls", "--quiet", name).strip())


def _runs(pid: int) -> bool:
    try:
        if os.waitpid(pid, os.WNOHANG) == (pid, 0):
            return False
    except ChildProcessError:
        pass  # another process started it
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def _remove_stale(pid_file: Path) -> None:
    """Remove a pid file whose process is gone: dockerd takes any process of that pid for itself."""
    try:
        pid = int(pid_file.read_text(encoding="utf-8"))
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        name = ""
    if name != "dockerd":
        pid_file.unlink(missing_ok=True)


def need(programs: list[str], *, install: bool) -> None:
    """See that programs are there, and install their packages if that is allowed.

    Raises:
        EngineError: One is missing.
    """
    missing = sorted({PACKAGES[name] for name in programs if not shutil.which(name)})
    if not missing:
        return
    if not install:
        raise EngineError(f"Missing Debian packages: {' '.join(missing)}; or say --install.")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
    ):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EngineError(f"{' '.join(command)}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")


def make_images(engine: Engine, *, install: bool) -> list[str]:
    """Make the test images that the engine does not have, and return their names."""
    made: list[str] = []
    if not engine.has_image(BUSYBOX_IMAGE):
        need(["busybox"], install=install)
        with tempfile.TemporaryDirectory(prefix="sbx-image-") as folder:
            _import(engine, busybox_root(Path(folder)), BUSYBOX_IMAGE)
        made.append(BUSYBOX_IMAGE)
    if not engine.has_image(PYTHON_IMAGE):
        need(["debootstrap"], install=install)
        with tempfile.TemporaryDirectory(prefix="sbx-image-") as folder:
            _import(engine, debian_root(Path(folder) / "root"), PYTHON_IMAGE)
        made.append(PYTHON_IMAGE)
    return made


def debian_root(root: Path) -> Path:
    """Make the files of a small Debian with Python (under a minute)."""
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise EngineError(f"debootstrap: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    for spare in (
        "var/cache/apt/archives",
        "var/lib/apt/lists",
        "usr/share/doc",
        "usr/share/locale",
    ):
        shutil.rmtree(root / spare, ignore_errors=True)
    return root


def busybox_root(root: Path) -> Path:
    """Make the files of an image that has BusyBox and nothing else."""
    program = shutil.which("busybox")
    assert program is not None
    for name in ("bin", "etc", "tmp", "root", "proc", "sys", "dev", "var"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin/busybox")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    for applet in listed.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    return root


def _import(engine: Engine, root: Path, name: str) -> None:
    with tempfile.NamedTemporaryFile(prefix="sbx-image-", suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(root, arcname=".", filter=_without_devices)
        file.flush()
        change = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        engine.docker("import", "--change", change, file.name, name)


def _without_devices(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    # The engine brings its own /dev.
    return None if member.isdev() and not member.isfile() else member


def main(argv: list[str] | None = None) -> int:
    """Do one of the three, and return the exit code."""
    parser = argparse.ArgumentParser(description="A Docker Engine and images for the tests.")
    parser.add_argument("what", choices=["start", "stop", "images"])
    parser.add_argument("--install", action="store_true", help="install missing Debian packages")
    options = parser.parse_args(argv)
    engine = Engine(RUN_FOLDER)
    try:
        if options.what == "stop":
            stopped = engine.stop()
            print("The engine has stopped." if stopped else "No engine of this script runs.")
            return 0
        if options.what == "start":
            need(
                ["dockerd", "docker", "iptables", "docker-registry", "runsc", "busybox"],
                install=options.install,
            )
            started = engine.start()
            print("The engine has started." if started else "An engine answers already.")
            return 0
        made = make_images(engine, install=options.install)
        said = f"Made: {', '.join(made)}." if made else "The images are there already."
        print(said, file=sys.stderr)
        print(f"export SBX_TEST_IMAGE={PYTHON_IMAGE}")
        print(f"export SBX_TEST_BUSYBOX_IMAGE={BUSYBOX_IMAGE}")
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
