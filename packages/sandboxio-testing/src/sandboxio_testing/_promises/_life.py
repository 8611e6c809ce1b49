"""How sandboxes come, end, and are found again."""

from __future__ import annotations

from ._clause import must, should

CLAUSES = (
    # ----- create
    must("create.usable", "A sandbox that `create()` returns runs commands at once."),
    must("create.exists", "A sandbox that `create()` returns exists at the provider under its id."),
    must(
        "create.describes-itself",
        "A sandbox names its backend and has an id of its own, capabilities, a tier and a policy.",
    ),
    must(
        "create.timeout",
        "A create that takes longer than its timeout raises `CreateTimeout` and leaves nothing.",
    ),
    must(
        "create.unanswered",
        "A create whose provider does not answer raises `CreateTimeout` soon after its timeout.",
    ),
    must("create.cancelled", "A create that is cancelled at any of its waits leaves nothing."),
    must(
        "create.bad-arguments",
        "A create with an argument of a wrong kind or value raises `ConfigurationError` and makes nothing.",
    ),
    must(
        "create.ends-what-it-made",
        "After sandboxes were created and killed in a row, none is left.",
    ),
    should(
        "create.frees-descriptors", "Sandboxes that ended leave no open descriptor in this process."
    ),
    # ----- context
    must("context.normal", "Leaving the block ends the sandbox."),
    must("context.error", "An exception in the block ends the sandbox and comes out as it was."),
    must(
        "context.cancelled",
        "A cancellation in the block ends the sandbox and stays a cancellation.",
    ),
    must(
        "context.cancelled-again",
        "A teardown runs to its end although its task is cancelled again and again.",
    ),
    # ----- kill
    must("kill.real", "When `kill()` returns, the sandbox and every process of it are gone."),
    must("kill.idempotent", "A second `kill()` succeeds silently."),
    must("kill.together", "Two kills at the same time both succeed."),
    must(
        "kill.busy",
        "`kill()` ends a sandbox with commands in flight, and these raise `SandboxGone`.",
    ),
    must(
        "kill.cancelled-scope",
        "`kill()` ends the sandbox although it is called in a scope that is cancelled.",
    ),
    must(
        "kill.beside-busy",
        "Commands in flight in one sandbox do not hold up the end of another.",
    ),
    must(
        "kill.refused",
        "An end that the provider refuses raises `ConnectError`, which says how to reap, and may be tried again.",
    ),
    must(
        "kill.unconfirmed",
        "An end that is not confirmed within the grace raises, and warns with the id, the backend and the labels.",
    ),
    must("kill.then-gone", "Every operation on a sandbox that was killed raises `SandboxGone`."),
    # ----- connect
    must("connect.attaches", "`connect()` attaches to the very sandbox of that id."),
    must(
        "connect.describes-itself",
        "A connected sandbox has the tier, the capabilities and the policy that it was created with.",
    ),
    must(
        "connect.unknown",
        "`connect()` with an unknown or empty id raises `ConnectError` and creates nothing.",
    ),
    must(
        "connect.dead",
        "`connect()` with the id of a sandbox that was killed raises `ConnectError`.",
    ),
    must(
        "connect.leaves-it-running",
        "Leaving the block of a connected sandbox leaves the sandbox running.",
    ),
    must("connect.kill", "`kill()` of a connected sandbox ends it for everybody."),
    # ----- lifetime
    must(
        "lifetime.enforced",
        "A sandbox is gone from the provider soon after its lifetime, without any call being made.",
    ),
    must("lifetime.gone", "A call after the lifetime raises `SandboxGone`."),
    must(
        "lifetime.in-flight",
        "A command without a timeout that outlives the sandbox raises `SandboxGone`.",
    ),
    must(
        "lifetime.not-renewed",
        "Neither use, nor a timeout, nor `connect()` lengthens the lifetime.",
    ),
    must("lifetime.reported", "The policy tells the lifetime that was asked for."),
    # ----- removed by somebody else
    must(
        "removed.between-calls",
        "A call on a sandbox that the provider removed raises `SandboxGone`.",
    ),
    must(
        "removed.during-run",
        "A command whose sandbox is removed raises `SandboxGone`, never an exit code.",
    ),
    must("removed.during-stream", "A stream whose sandbox is removed raises `SandboxGone`."),
    must("removed.during-upload", "An upload whose sandbox is removed raises `SandboxGone`."),
    must("removed.kill", "`kill()` of a sandbox that the provider removed succeeds."),
    # ----- managed
    must("managed.listed", "`list_managed()` lists a running sandbox with its id and backend."),
    must(
        "managed.labels",
        "The metadata of `create()` is stored with the sandbox and listed as it was given.",
    ),
    must("managed.filtered", "`list_managed(labels=...)` lists only what has these labels."),
    must(
        "managed.provider-labels",
        "The provider itself stores the metadata, so that orphans can be found without sandboxio.",
    ),
    must("managed.kill", "`kill_managed()` ends a sandbox and says `True`."),
    must(
        "managed.kill-unknown",
        "`kill_managed()` says `False` for an id that is gone or was never ours.",
    ),
    must(
        "managed.health",
        "`health()` says that a backend that creates sandboxes is well, and makes nothing.",
    ),
)
