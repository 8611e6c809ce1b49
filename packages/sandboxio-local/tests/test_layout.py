"""The options that bubblewrap gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxio_local._layout import Disk, Layout, options


def words(root: str = "/", **changes: object) -> list[str]:
    layout = Layout(
        root=root,
        prefix=None,
        disk=Disk.of(64),
        guest=("guest.py", b"pass"),
        nameserver=None,
    )
    contents: list[bytes] = []

    def data(content: bytes) -> int:
        contents.append(content)
        return 100 + len(contents)

    object.__setattr__(layout, "__dict__", {**vars(layout), **changes})
    return options(layout, data)


def pairs(all_words: list[str], option: str) -> dict[str, str]:
    """Return destination to source of every use of an option with two arguments."""
    at = [number for number, word in enumerate(all_words) if word == option]
    return {all_words[number + 2]: all_words[number + 1] for number in at}


@pytest.mark.parametrize("kind", ["user", "ipc", "pid", "net", "uts", "cgroup"])
def test_every_namespace_is_its_own(kind: str) -> None:
    assert f"--unshare-{kind}" in words()


@pytest.mark.parametrize(
    "option", ["--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
)
def test_hardening_is_asked_for(option: str) -> None:
    assert option in words()


def test_all_capabilities_are_dropped() -> None:
    all_words = words()
    assert all_words[all_words.index("--cap-drop") + 1] == "ALL"
    assert "--cap-add" not in all_words


def test_nothing_is_bound_writable() -> None:
    all_words = words()
    for option in ("--bind", "--dev-bind", "--bind-try", "--dev-bind-try", "--bind-data", "--file"):
        assert option not in all_words
    assert "--share-net" not in all_words


def test_root_and_devices_end_read_only() -> None:
    all_words = words()
    read_only = [all_words[at + 1] for at, word in enumerate(all_words) if word == "--remount-ro"]
    assert {"/", "/dev"} <= set(read_only)
    assert all_words.index("/dev", all_words.index("--dev") + 2) > all_words.index("--dev")
    # After the last mount of all, or there would be no place to mount it.
    assert all_words[-4:] == ["--remount-ro", "/", "--chdir", "/work"]


def test_only_system_directories_are_bound() -> None:
    bound = pairs(words(), "--ro-bind")
    tops = {destination.split("/")[1] for destination in bound}
    assert tops <= {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "proc"}
    assert {source for target, source in bound.items() if target.startswith("/proc")} <= {
        "/dev/null"
    }


@pytest.mark.parametrize(
    "secret", ["shadow", "ssl/private", "ssh", "sudoers", "environment", "machine-id", "pip.conf"]
)
def test_secrets_of_etc_are_not_bound(secret: str) -> None:
    assert f"/etc/{secret}" not in pairs(words(), "--ro-bind")
    assert "/etc" not in pairs(words(), "--ro-bind")
    assert "/etc/ssl" not in pairs(words(), "--ro-bind")


def test_resolver_is_there_only_with_a_network() -> None:
    assert "/etc/resolv.conf" not in pairs(words(), "--ro-bind-data")
    assert "/etc/resolv.conf" in pairs(words(nameserver="10.0.2.3"), "--ro-bind-data")


def test_python_outside_of_the_system_is_bound_at_its_own_place() -> None:
    all_words = words(prefix="/srv/me/python")
    assert pairs(all_words, "--ro-bind")["/srv/me/python"] == "/srv/me/python"
    path = all_words[all_words.index("PATH") + 1]
    assert path.startswith("/srv/me/python/bin:")


def test_staged_directories_are_bound_from_where_they_are() -> None:
    all_words = words(prefix="/root/python", staged=(("/root/python", "/tmp/0"),))
    assert pairs(all_words, "--ro-bind")["/root/python"] == "/tmp/0"
    assert all_words[all_words.index("PATH") + 1].startswith("/root/python/bin:")


def test_links_of_a_tree_stay_links(tmp_path: Path) -> None:
    """Followed by the host, an absolute link in a tree would lead to the host's own files."""
    (tmp_path / "usr").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "evil").symlink_to("/root")
    (tmp_path / "etc/shadow").symlink_to("/etc/shadow")
    (tmp_path / "etc/issue").write_text("hello")
    (tmp_path / "work").mkdir()
    (tmp_path / "proc").mkdir()
    all_words = words(root=str(tmp_path))
    links = pairs(all_words, "--symlink")
    assert links["/bin"] == "usr/bin"
    assert links["/evil"] == "/root"
    assert links["/etc/shadow"] == "/etc/shadow"
    bound = pairs(all_words, "--ro-bind")
    assert bound["/usr"] == str(tmp_path / "usr")
    assert bound["/etc/issue"] == str(tmp_path / "etc/issue")
    assert not {"/work", "/proc", "/etc", "/evil", "/etc/shadow"} & set(bound)


def test_synthetic_files_replace_those_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "resolv.conf", "hosts", "issue"):
        (tmp_path / "etc" / name).write_text("theirs")
    all_words = words(root=str(tmp_path))
    bound = pairs(all_words, "--ro-bind")
    assert "/etc/issue" in bound
    assert not {"/etc/passwd", "/etc/resolv.conf", "/etc/hosts"} & set(bound)
    assert {"/etc/passwd", "/etc/hosts"} <= set(pairs(all_words, "--ro-bind-data"))
