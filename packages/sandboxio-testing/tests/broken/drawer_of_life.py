"""The part of the drawer with faults of sandboxes, their provider, files and records."""

from __future__ import annotations

import faults_of_life as life
import faults_of_provider as provider
from fault import Fault, sandboxes

__all__ = ["LIFE"]

LIFE = (
    # ----- a provider that fails, and what a handle tells
    Fault(
        "failed kill counts as one", ("kill.refused",), make=sandboxes(provider.SecondKillIsNothing)
    ),
    Fault("orphans not told", ("kill.unconfirmed",), make=sandboxes(provider.OrphansUntold)),
    Fault("how to reap not told", ("kill.refused",), make=sandboxes(provider.ReapingUntold)),
    Fault(
        "late create is a failure",
        ("create.timeout", "create.unanswered"),
        make=provider.LateCreateIsAFailure,
    ),
    Fault(
        "teardown waits for busy workers",
        ("kill.beside-busy",),
        "template",
        provider.WorkersShared,
    ),
    Fault(
        "connected sandbox tells defaults",
        ("connect.describes-itself",),
        make=provider.TellsDefaults,
    ),
    Fault("secret in a log record", ("secrets.logs",), make=provider.LogsItsRequests),
    Fault(
        "a thread left by each sync sandbox",
        ("sync.frees-its-thread",),
        make=provider.ThreadForEachSandbox,
    ),
    # ----- life
    Fault("create cancelled leaks", ("create.cancelled",), "template", life.CreateCancelledLeaks),
    Fault(
        "builtin TimeoutError escapes",
        ("create.timeout", "create.unanswered"),
        make=life.CreateTimeoutIsABuiltin,
    ),
    Fault(
        "cancelled block leaks",
        ("context.cancelled", "context.cancelled-again"),
        make=sandboxes(life.CancelledBlockLeaks),
    ),
    Fault("kill not idempotent", ("kill.idempotent",), make=sandboxes(life.KillNotIdempotent)),
    Fault(
        "kill only sets a flag",
        (
            "create.cancelled",
            "create.ends-what-it-made",
            "context.normal",
            "context.error",
            "context.cancelled",
            "context.cancelled-again",
            "kill.real",
            "kill.together",
            "kill.cancelled-scope",
            "kill.then-gone",
            "connect.dead",
            "connect.kill",
            "managed.kill-unknown",
            "audit.lifecycle",
            "sync.works",
            "sync.in-a-running-loop",
            "kill.beside-busy",
            "kill.refused",
            "kill.unconfirmed",
            "audit.abandoned",
        ),
        make=sandboxes(life.KillSetsAFlag),
        # On a virtual clock, the lifetime may end the commands before the test gives up.
        may_break=("kill.busy",),
    ),
    Fault(
        "no lifetime bound",
        ("lifetime.enforced", "lifetime.gone", "lifetime.in-flight", "lifetime.not-renewed"),
        "template",
        life.NoLifetime,
    ),
    Fault("connect creates", ("connect.unknown", "connect.dead"), make=life.ConnectCreates),
    Fault(
        "leaving a connected sandbox kills it",
        ("connect.leaves-it-running",),
        make=life.LeavingAConnectedOneKills,
    ),
    Fault(
        "labels dropped",
        (
            "create.bad-arguments",
            "managed.labels",
            "managed.filtered",
            "kill.unconfirmed",
            "audit.tenant",
        ),
        make=life.LabelsDropped,
    ),
    Fault("label filter ignored", ("managed.filtered",), make=life.LabelFilterIgnored),
    Fault(
        "kill_managed claims everything", ("managed.kill-unknown",), make=life.KillManagedAlwaysTrue
    ),
    Fault(
        "raw provider exception escapes",
        ("errors.cause", "sync.errors", "audit.sink-fails"),
        make=life.RawErrorEscapes,
    ),
    Fault("__cause__ lost", ("errors.cause", "sync.errors"), make=life.CauseLost),
    # ----- files
    Fault(
        "relative paths differ between files and run",
        ("files.same-as-commands",),
        make=sandboxes(life.RelativePathsDiffer),
    ),
    Fault(
        "missing file returns empty",
        ("files.missing", "files.links", "errors.no-builtins", "files.no-host-paths"),
        make=sandboxes(life.MissingFileIsEmpty),
    ),
    Fault(
        "writes cut at 5 kB",
        ("files.round-trip", "files.read-bound", "transfer.failed-download"),
        make=sandboxes(life.WritesCut),
    ),
    Fault(
        "overwriting resets the mode",
        ("files.keeps-mode", "audit.each-operation"),
        make=sandboxes(life.OverwritingResetsMode),
    ),
    Fault("ls returns the first page", ("files.ls-many",), make=sandboxes(life.ListsOnePage)),
    Fault(
        "upload follows links of the host",
        ("transfer.host-links", "transfer.host-kinds"),
        make=sandboxes(life.HostLinksFollowed),
    ),
    Fault("files written in place", ("files.atomic-write",), make=sandboxes(life.WritesInPlace)),
    Fault("files of the host read", ("files.no-host-paths",), make=sandboxes(life.HostFilesRead)),
    Fault(
        "files written beside the mounts",
        ("files.visible",),
        make=sandboxes(life.WrittenBesideTheMounts),
    ),
    Fault("pipes waited for", ("files.pipe-refused",), make=sandboxes(life.PipesWaitedFor)),
    Fault(
        "growing file fails",
        ("files.growing",),
        "template",
        sandboxes(life.GrowingFileFails),
    ),
    Fault(
        "read-only file made writable",
        ("files.read-only",),
        make=sandboxes(life.ReadOnlyMadeWritable),
    ),
    # ----- secrets and records
    Fault("abandoned streams not recorded", ("audit.abandoned",), sink=life.AbandonedUnrecorded),
    Fault("denials are always 0", ("audit.denials",), sink=life.NeverDenied),
    Fault(
        "short values masked everywhere",
        ("audit.command", "audit.stream", "audit.abandoned", "audit.not-mangled"),
        sink=life.EnvironmentMaskedEverywhere,
    ),
    Fault("secret in a repr", ("secrets.reprs",), make=sandboxes(life.SecretInTheRepr)),
    Fault("secret split over chunks", ("secrets.errors",), make=sandboxes(life.MaskedInPieces)),
    Fault(
        "secret in an event", ("audit.no-secret",), make=life.TellsItsSink, sink=life.PathsUnmasked
    ),
    Fault(
        "no record for one operation",
        ("audit.each-operation",),
        sink=life.MakingDirectoriesUnrecorded,
    ),
    Fault(
        "only some operations recorded",
        (
            "audit.each-operation",
            "audit.lifecycle",
            "audit.failures",
            "audit.stream",
            "audit.code",
            "audit.no-secret",
            "audit.sink-fails",
            "audit.abandoned",
        ),
        sink=life.OnlyCommandsRecorded,
    ),
    Fault(
        "failures not recorded",
        ("audit.each-operation", "audit.failures", "audit.abandoned"),
        sink=life.FailuresUnrecorded,
    ),
    Fault(
        "output of streams not counted",
        ("audit.stream", "audit.abandoned"),
        sink=life.OutputUncounted,
    ),
)
