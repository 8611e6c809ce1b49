"""Reading YAML without trusting it.

The parser's events are read one by one, and nothing is ever constructed from a tag: no object, no
alias, no merge, no second document. So there is nothing that could be expanded or called.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ._tree import MAX_DEPTH, Item, resolved

if TYPE_CHECKING:
    import yaml

__all__ = ["read_yaml", "tree_of"]

MAX_BYTES = 256 * 1024
"""Size of a routing file; one with a hundred backends has a tenth of it."""

STRING = "tag:yaml.org,2002:str"


def read_yaml(path: Path) -> Item:
    """Read a file.

    Raises:
        ConfigurationError: It cannot be read, or is not YAML as a routing file may use it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"The routing file {path} cannot be read: {error.strerror or error}.",
            hint="Check the path and its permissions.",
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigurationError(
            f"{path}, line {line}: this is not UTF-8.", hint="Save the routing file as UTF-8."
        ) from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(
            f"The routing file {path} is larger than {MAX_BYTES // 1024} KiB.",
            hint="Is it a routing file?",
        )
    return tree_of(text)


def tree_of(text: str) -> Item:
    """Parse text into values with their lines."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigurationError(
            "Reading a routing file needs PyYAML, which is not installed.",
            hint='uv pip install "sandboxio-core[routing]", or pass a dict to Router.from_dict().',
        ) from error
    try:
        return _Reader(yaml.parse(text, Loader=yaml.SafeLoader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise ConfigurationError(
            f"line {line}: this is not valid YAML: {error.problem or error.context}.",
            hint="Correct the syntax there; indent with spaces, and quote text with : or #.",
        ) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(
            f"The routing file is not valid YAML: {str(error).splitlines()[0]}.",
            hint="Remove control characters, and save it as UTF-8.",
        ) from error


class _Reader:
    """Turns events into items."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events

    def document(self) -> Item:
        import yaml

        item = Item(None, "", 1)
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _at(event, "").problem(
                        "there is a second document.", "Keep one document; remove the ---."
                    )
            elif isinstance(event, yaml.NodeEvent):
                item = self._node(event, "", 0)
        return item

    def _node(self, event: yaml.Event, path: str, depth: int) -> Item:
        import yaml

        here = _at(event, path)
        if isinstance(event, yaml.AliasEvent):
            raise here.problem("aliases (*name) are refused.", "Write the value out.")
        if getattr(event, "anchor", None) is not None:
            raise here.problem("anchors (&name) are refused.", "Remove it, and write values out.")
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            raise here.problem(
                "tags (!name) are refused.", "Remove the tag, and write plain values."
            )
        if depth > MAX_DEPTH:
            raise here.problem(
                f"nested more than {MAX_DEPTH} deep.", "A routing file is not nested so deep."
            )
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.implicit[0] and event.style in (None, "")
            return Item(resolved(event.value) if is_plain else event.value, path, here.line)
        if isinstance(event, yaml.SequenceStartEvent):
            return Item(self._sequence(path, depth), path, here.line)
        assert isinstance(event, yaml.MappingStartEvent)
        return Item(self._mapping(path, depth), path, here.line)

    def _sequence(self, path: str, depth: int) -> list[Item]:
        import yaml

        items: list[Item] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, f"{path}[{len(items)}]", depth + 1))
        return items

    def _mapping(self, path: str, depth: int) -> dict[str, Item]:
        import yaml

        values: dict[str, Item] = {}
        lines: dict[str, int | None] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._node(event, path, depth + 1)
            if not isinstance(key.value, str):
                raise key.problem(f"a key is {key.kind}, not text.", "Put the key in quotes.")
            name = key.value
            if name in values:
                raise key.problem(
                    f"the key {name!r} is there already, at line {lines[name]}.",
                    "Remove one of the two.",
                )
            inner = f"{path}.{name}" if path else name
            value = self._node(next(self._events), inner, depth + 1)
            # A key that is refused is looked for where it stands, and a nested value may be far off.
            values[name] = Item(value.value, inner, key.line)
            lines[name] = key.line
        return values


def _at(event: yaml.Event, path: str) -> Item:
    mark = event.start_mark
    return Item(None, path, None if mark is None else mark.line + 1)
