"""Build a wheel so that anybody gets the same bytes from the same commit, and list what is in it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pins
import release_history
import uv
import workspace

SBOM: Final = "{wheel}-{version}.cdx.json"


class NotReproducibleError(Exception):
    """Two builds of one commit differ; the message says in which file."""


def build(root: Path, wheel: str, out: Path, revision: str = "HEAD") -> list[Path]:
    """Build the sdist and the wheel of a revision into `out`, and return their paths.

    Both are built twice, in different folders: once the wheel from the sdist, as an installer would,
    and once from the tree. `NotReproducibleError` is raised when a byte differs.
    """
    epoch = release_history.commit_time(root, revision)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sandboxio-release-") as folder:
        work = Path(folder)
        first = _from_sdist(root, wheel, revision, work / "one", epoch)
        second = _from_tree(root, wheel, revision, work / "another-folder", epoch)
        _compare(first, second)
        return sorted(Path(shutil.copy2(path, out)) for path in first.iterdir())


def _from_sdist(root: Path, wheel: str, revision: str, work: Path, epoch: int) -> Path:
    tree = release_history.unpack(root, revision, f"packages/{wheel}", work)
    dist = _hatch(tree, "sdist", work / "dist", epoch)
    (archive,) = dist.iterdir()
    release_history.extract(archive, work / "sdist")
    (unpacked,) = (work / "sdist").iterdir()
    return _hatch(unpacked, "wheel", dist, epoch)


def _from_tree(root: Path, wheel: str, revision: str, work: Path, epoch: int) -> Path:
    tree = release_history.unpack(root, revision, f"packages/{wheel}", work)
    _hatch(tree, "wheel", work / "dist", epoch)
    return _hatch(tree, "sdist", work / "dist", epoch)


def _hatch(tree: Path, target: str, dist: Path, epoch: int) -> Path:
    """Let the hatchling of this environment, which is pinned, build one file into `dist`."""
    command = [sys.executable, "-m", "hatchling", "build"]
    command += ["--target", target, "--directory", str(dist)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "random"}
    subprocess.run(command, cwd=tree, env=env, check=True, capture_output=True)
    return dist


def _compare(first: Path, second: Path) -> None:
    one = {path.name: digest(path) for path in first.iterdir()}
    other = {path.name: digest(path) for path in second.iterdir()}
    if one != other:
        differ = sorted({name for name, _ in one.items() ^ other.items()})
        raise NotReproducibleError(f"Two builds of one commit differ: {', '.join(differ)}.")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checksums(files: list[Path]) -> str:
    """Return the lines of a `SHA256SUMS` file."""
    return "".join(f"{digest(path)}  {path.name}\n" for path in sorted(files))


# --- installing ----------------------------------------------------------------------------------


def run_uv(*arguments: str, folder: Path) -> None:
    """Run uv where nothing of the workspace is found, and raise `SystemExit` with its words if it fails."""
    env = uv.environment()
    env.pop("UV_PROJECT_ENVIRONMENT", None)
    done = subprocess.run(
        [str(uv.bring()), "--quiet", "--no-config", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"uv {' '.join(arguments)}\n{done.stderr}")


def environment(
    work: Path, requirements: list[str], *, constraints: list[str], options: tuple[str, ...] = ()
) -> Path:
    """Make an environment with `requirements` and nothing else in `work`, and return its Python."""
    python = work / "env" / "bin" / "python"
    limits, asked = work / "constraints.txt", work / "requirements.txt"
    limits.write_text("".join(f"{line}\n" for line in constraints), encoding="utf-8")
    asked.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    run_uv(
        "venv", "--python", sys.executable, "--no-python-downloads", str(work / "env"), folder=work
    )
    files = ["--requirements", str(asked), "--constraints", str(limits)]
    run_uv("pip", "install", "--python", str(python), *options, *files, folder=work)
    run_uv("pip", "check", "--python", str(python), folder=work)
    return python


def pinned(root: Path) -> list[str]:
    """Return the pins of the workspace, as constraints."""
    return pins.pins_of_project((root / "pyproject.toml").read_text(encoding="utf-8"))


# --- the bill of materials -----------------------------------------------------------------------


def bill_of_materials(
    root: Path, member: workspace.Member, python: Path, out: Path, revision: str = "HEAD"
) -> Path:
    """Write what an environment with the wheel holds, as CycloneDX JSON, and return the path.

    `python` is of an environment that has the wheel and what it asks for, as `environment` makes it.
    """
    # Where the siblings were installed from is a folder of this machine, and of no interest.
    for origin in (python.parent.parent / "lib").glob(
        "*/site-packages/*.dist-info/direct_url.json"
    ):
        origin.unlink()
    path = out / SBOM.format(wheel=member.name, version=member.version)
    subprocess.run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
            *("--pyproject", str(member.folder / "pyproject.toml"), "--mc-type", "library"),
            *("--output-format", "JSON", "--output-file", str(path), str(python)),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(release_history.commit_time(root, revision))},
        check=True,
        capture_output=True,
    )
    names = components(path)
    if not names.items() >= {member.name: member.version}.items():
        raise SystemExit(f"{path.name} does not name {member.name} {member.version}: {names}")
    return path


def components(path: Path) -> dict[str, str]:
    """Return what a bill of materials lists, name -> version, with what it is about."""
    bill: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    listed: list[dict[str, Any]] = [bill["metadata"]["component"], *bill.get("components", [])]
    return {str(entry["name"]): str(entry.get("version", "")) for entry in listed}
