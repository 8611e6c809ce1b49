"""What `sandbox.files` does."""

from __future__ import annotations

from ._clause import must, should

CLAUSES = (
    must("files.round-trip", "What is written is read back byte for byte, at every size."),
    must("files.text", "Text is written as UTF-8."),
    must(
        "files.odd-names",
        "Every name that a file can have works, and nothing but that file is touched.",
    ),
    must(
        "files.same-as-commands",
        "A relative path means the same file to `files` and to a command, in both directions.",
    ),
    must(
        "files.commands-may-change",
        "A command may change and remove what was written through `files`.",
    ),
    must("files.missing", "A path that does not exist raises `PathNotFound`, in every operation."),
    must(
        "files.directory-refused",
        "Reading or writing a directory as a file raises `FileSystemError` and changes nothing.",
    ),
    must("files.special-refused", "Writing onto a device raises `FileSystemError`."),
    must("files.endless-refused", "Reading something endless is refused instead of attempted."),
    must("files.pipe-refused", "Reading a named pipe is refused instead of waited for."),
    must("files.growing", "Reading a file that grows ends, with what it had at some moment."),
    must(
        "files.visible",
        "A write, wherever to, is refused or is seen by commands.",
    ),
    must(
        "files.no-host-paths",
        "A path means a file of the sandbox, never one of the host.",
    ),
    must(
        "files.read-bound",
        "`read()` returns a file of `SBX_MAX_OUTPUT_MB`, and refuses a larger one with `OutputLimitExceeded`.",
    ),
    must("files.bad-path", "A path that no file can have raises `ConfigurationError`."),
    must("files.keeps-mode", "Overwriting a file keeps its permission bits."),
    must(
        "files.read-only",
        "Overwriting a read-only file changes it and keeps its permission bits, or raises and changes nothing.",
    ),
    must(
        "files.write-through-link",
        "Writing to a link changes what it points to, and the link stays one.",
    ),
    must(
        "files.links",
        "A link is followed when it is read, a link that points nowhere is `PathNotFound`, and a loop is an error.",
    ),
    must(
        "files.ls", "`ls()` lists every entry, sorted, with its size and kind, and links as links."
    ),
    must("files.ls-many", "`ls()` lists a directory with 1,000 entries."),
    must("files.ls-file", "`ls()` of a file raises `FileSystemError`."),
    must("files.stat", "`stat()` describes a path without following a final link."),
    must(
        "files.mkdir",
        "`mkdir()` makes one directory, and raises `FileSystemError` if the path exists.",
    ),
    must(
        "files.mkdir-parents",
        "`mkdir(parents=True)` makes what is missing, and an existing directory is fine.",
    ),
    must("files.remove", "`remove()` removes a file, or a directory with all it holds."),
    must("files.remove-link", "`remove()` of a link leaves alone what it points to."),
    must("files.deep", "A path of 40 directories works."),
    must(
        "files.atomic-write",
        "A write that is cancelled leaves the old content, and nothing beside it.",
    ),
    # ----- transfers
    must("transfer.round-trip", "What is uploaded and downloaded is the same, byte for byte."),
    should("transfer.metadata", "A transfer keeps the executable bit and the modification time."),
    must(
        "transfer.host-links",
        "`upload()` does not follow a link of the host, and `download()` replaces one.",
    ),
    must(
        "transfer.host-kinds",
        "`upload()` refuses what is no regular file, and `download()` a directory as its target.",
    ),
    must("transfer.host-missing", "A local path that does not exist raises `PathNotFound`."),
    must("transfer.cancelled-upload", "An upload that is cancelled leaves no half file."),
    must(
        "transfer.failed-download",
        "A download that fails or is cancelled leaves what was there, and nothing beside it.",
    ),
    must("transfer.event-loop", "The event loop goes on during a transfer."),
)
