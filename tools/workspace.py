"""The members of the workspace, as their own files describe them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Member:
    """One wheel of the workspace."""

    folder: Path
    project: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the wheel: `sandboxio-local`."""
        return str(self.project["name"])

    @property
    def version(self) -> str:
        """The version that the wheel is built with."""
        return str(self.project["version"])

    @property
    def package(self) -> Path | None:
        """The folder that is imported; `None` for the wheel that holds only requirements."""
        packages = sorted(self.folder.glob("src/*/py.typed"))
        return packages[0].parent if packages else None

    @property
    def requirements(self) -> list[str]:
        """Every requirement of the wheel, those of its extras included."""
        plain: list[str] = self.project.get("dependencies", [])
        extras: dict[str, list[str]] = self.project.get("optional-dependencies", {})
        return [*plain, *(line for lines in extras.values() for line in lines)]

    def modules(self) -> list[str]:
        """Return the dotted names of all modules but `__main__`, which is not there to be imported."""
        if self.package is None:
            return []
        source = self.package.parent
        paths = [path.relative_to(source).with_suffix("") for path in self.package.rglob("*.py")]
        parts = [path.parts[:-1] if path.name == "__init__" else path.parts for path in paths]
        return sorted(".".join(part) for part in parts if part[-1] != "__main__")


def members(root: Path = ROOT) -> list[Member]:
    """Return the wheels of the workspace, sorted by the name of their folders."""
    return [
        Member(path.parent, tomllib.loads(path.read_text(encoding="utf-8"))["project"])
        for path in sorted(root.glob("packages/*/pyproject.toml"))
    ]


def root_settings(root: Path = ROOT) -> dict[str, Any]:
    """Return the root `pyproject.toml`, which holds the configuration of every tool."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
