"""How far a pull is, summed up over the layers that the engine tells of one by one."""

from __future__ import annotations

from typing import Any

__all__ = ["Layers"]

Json = dict[str, Any]

FETCHED = ("Verifying Checksum", "Download complete", "Extracting", "Pull complete")

UNSIZED = ("Pulling fs layer", "Waiting")


class Layers:
    """Sums up what a pull has fetched; a layer that is there already has nothing to fetch."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int | None]] = {}

    def learn(self, answer: Json) -> None:
        """Take one line of the engine's answer."""
        layer, status = answer.get("id"), answer.get("status")
        if not isinstance(layer, str) or not isinstance(status, str):
            return
        done, total = self._layers.get(layer, (0, None))
        detail: Json = answer.get("progressDetail") or {}
        if status == "Downloading" and isinstance(detail.get("current"), int):
            size = detail.get("total")
            self._layers[layer] = (detail["current"], size if isinstance(size, int) else total)
        elif status in UNSIZED:
            self._layers.setdefault(layer, (0, None))
        elif status in FETCHED and layer in self._layers:
            size = done if total is None else total
            self._layers[layer] = (size, size)

    @property
    def done(self) -> int:
        """Bytes that were fetched."""
        return sum(done for done, _ in self._layers.values())

    @property
    def total(self) -> int | None:
        """Bytes to fetch; ``None`` as long as the size of a layer is not known."""
        sizes = [total for _, total in self._layers.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(sizes) else None
