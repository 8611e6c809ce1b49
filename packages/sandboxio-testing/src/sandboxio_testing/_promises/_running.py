"""How commands and code run, and how they are stopped."""

from __future__ import annotations

from ._clause import must, should

CLAUSES = (
    # ----- exec: exit codes
    must("exec.exit-code", "The exit code is the command's own, from 0 to 255."),
    must("exec.exit-code-streamed", "The exit code of a streamed command is the command's own."),
    must(
        "exec.exit-code-background",
        "The exit code is the command's own although it leaves a background child.",
    ),
    must("exec.signalled", "A command that dies of signal n has the exit code 128 + n."),
    must(
        "exec.not-found",
        "A program that does not exist is exit code 127 with a message on stderr and nothing on stdout.",
    ),
    must(
        "exec.not-executable",
        "A file that cannot be executed is exit code 126 with a message on stderr.",
    ),
    must(
        "exec.no-interpreter",
        "A script whose interpreter does not exist is exit code 126 or 127 with a message on stderr.",
    ),
    # ----- exec: output
    must("exec.streams-apart", "What a command writes to stdout and to stderr arrives apart."),
    must("exec.last-line", "The last line arrives although no newline ends it."),
    must("exec.no-output", 'A command that prints nothing has `""` as its output.'),
    must("exec.nul", "NUL bytes and carriage returns arrive as they are."),
    must("exec.undecodable", "Bytes that are not UTF-8 appear as `\\xNN` and raise nothing."),
    must("exec.split-character", "A character that is written in pieces arrives whole."),
    must("exec.multibyte", "300 kB of characters of three bytes arrive whole."),
    must(
        "exec.both-streams",
        "Much output on both streams arrives whole, down to the last line before a failure.",
    ),
    must("exec.long-line", "A line of 5 MiB arrives whole."),
    must("exec.order", "Order within a stream is kept."),
    must("exec.output-at-bound", "Output of exactly `SBX_MAX_OUTPUT_MB` is returned."),
    must(
        "exec.output-over-bound",
        "One byte more raises `OutputLimitExceeded` with the head and the tail, and the command is gone.",
    ),
    # ----- exec: arguments
    must("exec.list-without-shell", "A list is run without a shell."),
    must("exec.string-by-shell", "A string is run by `/bin/sh`."),
    must("exec.arguments-are-data", "Arguments arrive as they are, whatever they contain."),
    must("exec.bad-command", "A command that no process can have raises `ConfigurationError`."),
    must("exec.broken-pipe", "A reader that ends early ends its writer."),
    should(
        "exec.frees-descriptors", "Commands that ended leave no open descriptor in this process."
    ),
    # ----- exec: environment
    must("env.create", "Every command has the environment of `create()`."),
    must(
        "env.call", "A command has the environment of its call, which wins over that of `create()`."
    ),
    must("env.call-only", "The environment of a call is gone after it."),
    must("env.is-data", "Values arrive as they are, whatever they contain."),
    should("env.odd-names", "A name that a shell could not use arrives too."),
    must("env.overrides", "A variable such as `PATH` can be replaced."),
    must("env.nothing-inherited", "Nothing of the caller's own environment is seen inside."),
    must("env.bad-names", "A name that no process can have raises `ConfigurationError`."),
    # ----- exec: working directory
    must("cwd.default", "Commands start in the working directory of the sandbox."),
    must(
        "cwd.given", "`cwd=` is where a command starts; a relative one starts at the sandbox's own."
    ),
    must("cwd.missing", "A `cwd` that does not exist raises `PathNotFound`."),
    must("cwd.not-a-directory", "A `cwd` that is no directory raises `FileSystemError`."),
    # ----- exec: stdin
    must("stdin.empty", "Without `stdin=`, a command that reads finds the end at once."),
    must("stdin.given", "`stdin=` arrives as it is, and then its end."),
    must("stdin.large", "10 MiB go in and come out together."),
    must("stdin.not-read", "A command that does not read its stdin is not waited for."),
    must("stdin.refused", "`stdin=` of a wrong kind raises `ConfigurationError`."),
    # ----- exec: background
    must(
        "background.not-awaited",
        "A command that ended returns, although a background child keeps its pipes open.",
    ),
    must("background.lives-on", "A background child lives on after its command returned."),
    must(
        "background.daemon",
        "A daemon with closed streams lives on, and a client of a later command reaches it.",
    ),
    # ----- timeout
    must(
        "timeout.raises",
        "A command that passes its deadline raises `ExecutionTimeout`, within the deadline and a grace.",
    ),
    must("timeout.partial-output", "`ExecutionTimeout` carries what was printed until then."),
    must(
        "timeout.tree",
        "The command, its children and what left its session are dead when `ExecutionTimeout` is raised.",
    ),
    must("timeout.stubborn", "A command that ignores signals is dead as well."),
    must("timeout.confirmed", "`ExecutionTimeout` says that the kill was confirmed."),
    must("timeout.siblings", "Other commands of the sandbox live on, and so do its files."),
    must(
        "timeout.not-guessed",
        "A command that ends by itself with 124, 137 or 143 has not timed out.",
    ),
    must(
        "timeout.bad-value",
        "A timeout that is not a finite number above 0 raises `ConfigurationError`.",
    ),
    must(
        "timeout.stream",
        "A streamed command that passes its deadline raises `ExecutionTimeout` and is dead.",
    ),
    must("timeout.idle-consumer", "The deadline of a stream holds although nobody reads it."),
    must(
        "timeout.callers-own",
        "A deadline of the caller's own stays a builtin `TimeoutError`, and leaves nothing.",
    ),
    # ----- cancel
    must("cancel.run", "Cancelling `run()` leaves no process."),
    must("cancel.early", "Cancelling `run()` at any of its first waits leaves no process."),
    must("cancel.code", "Cancelling `run_code()` leaves no process."),
    must(
        "cancel.identity", "A cancellation comes out as a cancellation, never as a `SandboxError`."
    ),
    must("cancel.siblings", "After a cancellation, the sandbox and its other commands live on."),
    # ----- stream
    must(
        "stream.not-awaitable",
        "`stream()` is no coroutine, and starts nothing before its block is entered.",
    ),
    must(
        "stream.surroundings",
        "A streamed command has the environment, the working directory and the stdin of its call.",
    ),
    must("stream.while-running", "Output arrives while the command runs."),
    must("stream.whole", "Chunks of a stream, put together, are what the command wrote."),
    must("stream.tells-streams", "Each chunk says which stream it is of."),
    must(
        "stream.returncode",
        "`returncode` is `None` while the command runs, and its exit code afterwards.",
    ),
    must("stream.wait", "`wait()` returns the exit code, `streamed=True` and no output."),
    must("stream.wait-again", "`wait()` may be called again and says the same."),
    must("stream.wait-discards", "`wait()` discards what was not read."),
    must("stream.ended", "After a stream was read to its end, nothing of the command is left."),
    must(
        "stream.left",
        "Leaving the block of a stream early ends the command and all that it started.",
    ),
    must(
        "stream.error",
        "An exception in the block of a stream ends the command, and comes out as it was.",
    ),
    must(
        "stream.cancelled",
        "A cancellation in the block of a stream ends the command, and stays a cancellation.",
    ),
    must("stream.kill", "`Process.kill()` ends the command, and may be called again."),
    must("stream.siblings", "Ending a stream early leaves other commands of the sandbox alone."),
    must(
        "stream.back-pressure",
        "A command whose output is not read is held up, instead of filling the host's memory.",
    ),
    must(
        "stream.send", "`send()` writes to the command while it runs, and `send_eof()` ends that."
    ),
    must("stream.signal", "`signal()` reaches the command."),
    must(
        "stream.other-task", "A stream may be read and left in another task than it was entered in."
    ),
    # ----- code
    must("code.runs", "`run_code()` runs Python and returns what it printed."),
    must(
        "code.errors",
        "A syntax error and an exception are exit codes other than 0 with a message on stderr.",
    ),
    must("code.exit", "`sys.exit(n)` in code is exit code n."),
    must("code.large", "Code of 200 kB runs."),
    must("code.is-data", "Code arrives as it is, whatever it contains."),
    must("code.one-shot", "Without a context, nothing is kept between two calls."),
    must("code.environment", "Code has the environment of `create()` and of its call."),
    must("code.timeout", "Code that passes its deadline raises `ExecutionTimeout`, and is dead."),
    must(
        "code.language",
        "A language that the backend does not have raises `CapabilityNotSupported`.",
    ),
    must("code.no-results", "`results` is `None` where the backend has no interpreter."),
    must(
        "code.results",
        "Where the backend has an interpreter, `results` has the value of the last expression.",
    ),
    must(
        "code.context",
        "`context_id=` keeps variables from call to call, and apart from other contexts.",
    ),
    # ----- concurrency
    must(
        "concurrency.many", "50 commands at the same time each get their own output and exit code."
    ),
    must(
        "concurrency.other-task",
        "A sandbox may be used and ended in another task than it was created in.",
    ),
    must(
        "concurrency.threads", "One backend creates sandboxes in several threads at the same time."
    ),
    must("concurrency.event-loop", "The event loop goes on while a call is in flight."),
)
