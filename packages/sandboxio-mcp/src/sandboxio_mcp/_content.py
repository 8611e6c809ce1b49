"""From what a sandbox returned to what a model sees."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from sandboxio.models import ExecResult

from ._pages import PAGE_BYTES, PAGE_CHARACTERS, Page, Pages

__all__ = ["Block", "file_page", "page_result", "ran", "shown", "text_result", "uri_of"]

Block = TextContent | ImageContent | AudioContent | EmbeddedResource

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What models can look at; other images are binary data to them."""

MARKUP = frozenset({"text/html", "image/svg+xml", "text/latex"})
"""Text that a client shows rather than a model reads, so it is a resource with its type."""

MOST_DISPLAYED = 32
"""Results of one program; all of them share the room of one page of binary data."""

LONGEST_TYPE = 100
"""Characters of a MIME type."""

MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

# Without the host's own tables: what a file is called must not depend on the machine.
TYPES = mimetypes.MimeTypes(filenames=())


def shown(text: str) -> str:
    r"""Return text that JSON can carry: bytes of a name that are not UTF-8 appear as ``\xNN``."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text_result(*parts: str, structured: dict[str, Any] | None = None) -> CallToolResult:
    """Return texts as a result."""
    content: list[Any] = [TextContent(text=shown(part)) for part in parts]
    return CallToolResult(content=content, structured_content=structured)


def ran(result: ExecResult, pages: Pages) -> CallToolResult:
    """Return what a command or a program printed, how it ended, and what it displayed."""
    stdout, stderr = pages.first(result.stdout), pages.first(result.stderr)
    lines = [f"exit code: {result.exit_code}"]
    for name, page in (("stdout", stdout), ("stderr", stderr)):
        if page.data:
            lines.append(f"--- {name}")
            lines.append(_text(page).rstrip("\n"))
            lines.extend(_where_the_rest_is(page))
    blocks: list[Block] = [TextContent(text="\n".join(lines))]
    results: list[dict[str, Any]] = []
    room = PAGE_BYTES
    displayed = result.results or ()
    for output in displayed[:MOST_DISPLAYED]:
        # A hostile program chooses the type, too.
        mime = shown(output.mime_type)[:LONGEST_TYPE]
        block = _rich(mime, output.data, pages, room)
        room -= _weight(block)
        results.append({"mime_type": mime, "content": len(blocks)})
        blocks.append(block)
    if len(displayed) > MOST_DISPLAYED:
        left = len(displayed) - MOST_DISPLAYED
        blocks.append(TextContent(text=f"[{left} more results are not shown; display fewer]"))
    more = [
        {"stream": name, "handle": page.handle, "pages": page.of}
        for name, page in (("stdout", stdout), ("stderr", stderr))
        if page.handle is not None
    ]
    structured = {
        "exit_code": result.exit_code,
        "stdout": _text(stdout),
        "stderr": _text(stderr),
        "results": results,
        "more": more,
    }
    return CallToolResult(content=_listed(blocks), structured_content=structured)


def page_result(page: Page) -> CallToolResult:
    """Return one page as a result, with how to get the next."""
    if isinstance(page.data, str):
        return text_result("\n".join([_text(page), *_where_the_rest_is(page)]))
    encoded = base64.b64encode(page.data).decode()
    if page.of == 1 and page.mime_type in IMAGES:
        return CallToolResult(content=[ImageContent(data=encoded, mime_type=page.mime_type)])
    uri = page.uri or "sandbox:///"
    where = uri if page.of == 1 else f"{uri}#page={page.number}"
    blob = BlobResourceContents(uri=where, mime_type=page.mime_type, blob=encoded)
    blocks: list[Block] = [EmbeddedResource(resource=blob)]
    if page.of > 1:
        blocks.append(TextContent(text="\n".join(_where_the_rest_is(page))))
    return CallToolResult(content=_listed(blocks))


def file_page(path: str, data: bytes, pages: Pages) -> Page:
    """Return the first page of a file: text where it is UTF-8 without NUL, else binary."""
    uri = uri_of(path)
    if b"\0" not in data:
        try:
            return pages.first(data.decode(), uri=uri)
        except UnicodeDecodeError:
            pass
    return pages.first(data, mime_type=_type_of(path, data), uri=uri)


def uri_of(path: str) -> str:
    """Return the URI of a path in the sandbox."""
    return "sandbox:///" + quote(path.lstrip("/"), errors="surrogateescape")


def _rich(mime: str, data: str, pages: Pages, room: int) -> Block:
    if mime in IMAGES or mime.startswith("audio/"):
        return _media(mime, data, room)
    if min(len(data), PAGE_CHARACTERS) > room:
        return TextContent(text=f"[{mime} of {len(data)} characters: no room left; display less]")
    page = pages.first(data, mime_type=mime)
    text = "\n".join([_text(page), *_where_the_rest_is(page)])
    if mime in MARKUP:
        return EmbeddedResource(
            resource=TextResourceContents(uri="sandbox:///displayed", mime_type=mime, text=text)
        )
    return TextContent(text=text)


def _media(mime: str, data: str, room: int) -> Block:
    encoded = "".join(data.split())  # some interpreters break it into lines
    try:
        size = len(base64.b64decode(encoded, validate=True))
    except ValueError:
        return TextContent(text=f"[{mime}: what the program displayed is not base64]")
    if size > room:
        return TextContent(
            text=f"[{mime} of {size} bytes: too large to show here. Make it smaller, or save it to "
            "a file and call read_file.]"
        )
    kind = ImageContent if mime in IMAGES else AudioContent
    return kind(data=encoded, mime_type=mime)


def _weight(block: Block) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return len(resource.text)
        case ImageContent() | AudioContent():
            return len(block.data) * 3 // 4
        case _:
            return 0


def _text(page: Page) -> str:
    return shown(page.data) if isinstance(page.data, str) else ""


def _where_the_rest_is(page: Page) -> Sequence[str]:
    if page.of == 1:
        return ()
    if page.number == page.of:
        return (f"[page {page.number} of {page.of}, the last]",)
    following = f'read_more(handle="{page.handle}", page={page.number + 1})'
    return (f"[page {page.number} of {page.of}; the next: {following}]",)


def _type_of(path: str, data: bytes) -> str:
    for start, mime in MAGIC:
        if data.startswith(start):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    # Not what the name says of images: a client would try to show what is none.
    guess = TYPES.guess_type(path.rpartition("/")[2])[0]
    return "application/octet-stream" if guess is None or guess in IMAGES else guess


def _listed(blocks: Iterable[Block]) -> list[Any]:
    return list(blocks)
