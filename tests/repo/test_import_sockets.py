"""No import of ours talks to anybody: not of core, not of an adapter with its SDK, not of a plugin.

What is loaded is watched from below, by the audit hook of the interpreter, which no library can pass by:
it sees what pytest-socket patches, and what C code does as well.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import workspace

MEMBERS = [member for member in workspace.members() if member.package]

# A socket that is made and closed tells nobody anything: SDKs ask that way whether there is IPv6.
TALKING = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyaddr",
    "socket.gethostbyname",
    "socket.getnameinfo",
    "socket.sendmsg",
    "socket.sendto",
)

WATCH = """
import sys
seen = []
def hook(event, arguments):
    if event.startswith({watched!r}):
        seen.append(f"{{event}} {{arguments[1:]}}")
sys.addaudithook(hook)
failed = []
for name in {modules!r}:
    before = len(seen)
    try:
        __import__(name)
    except Exception:
        if not name.startswith({optional!r}):
            raise
    if len(seen) > before:
        failed.append(f"{{name}}: {{seen[before:]}}")
print(*failed, sep="\\n", end="")
"""
# They need a framework that may not be there, and say so; `test_imports.py` holds them to that.
OPTIONAL = ("sandboxio.integrations.", "sandboxio_testing.")


def watched_while_importing(modules: list[str], watched: tuple[str, ...]) -> str:
    """Import modules in a process of its own and return what was seen, by module."""
    code = WATCH.format(modules=modules, watched=watched, optional=OPTIONAL)
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.slow
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_import_of_any_module_talks_to_nobody(member: workspace.Member) -> None:
    # What is called `inside` runs in a sandbox and is never imported.
    modules = [name for name in member.modules() if ".inside" not in name]
    assert watched_while_importing(modules, TALKING) == ""


def test_import_of_core_and_of_plugins_makes_no_socket_at_all() -> None:
    core = next(member for member in MEMBERS if member.name == "sandboxio-core")
    modules = [name for name in core.modules() if "integrations" not in name]
    plugins = [name for member in MEMBERS for name in member.modules() if name.endswith("._plugin")]
    assert watched_while_importing([*modules, *plugins], ("socket.",)) == ""


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("import socket; socket.getaddrinfo('localhost', 80)", "socket.getaddrinfo"),
        ("import socket; socket.socket().connect_ex(('127.0.0.1', 9))", "socket.connect"),
        ("import socket; socket.socket()", "socket.__new__"),
    ],
)
def test_the_watch_sees_what_it_is_for(
    line: str, event: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("talking")
    (folder / "talking.py").write_text(line + "\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert event in watched_while_importing(["talking"], ("socket.",))
