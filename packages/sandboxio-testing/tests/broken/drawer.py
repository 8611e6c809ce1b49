"""The drawer: each broken backend, with its one fault, and the clauses that it has to fail."""

from __future__ import annotations

import faults_of_commands as commands
import faults_of_life as life
import faults_of_safety as safety
from fault import OUTSIDE, SAMPLE, Fault, instead, sandboxes
from wrapping import PassingBackend

__all__ = ["DRAWER", "SAMPLE", "Fault"]

DRAWER = (
    # ----- commands
    Fault(
        "wrong exit code",
        ("exec.exit-code", "exec.signalled", "timeout.not-guessed"),
        make=sandboxes(commands.ExitCodesOfSevenBits),
    ),
    Fault(
        "stderr merged into stdout",
        (
            "exec.not-found",
            "exec.not-executable",
            "exec.streams-apart",
            "exec.last-line",
            "exec.nul",
            "exec.undecodable",
            "exec.split-character",
            "exec.both-streams",
            "concurrency.many",
            "sync.works",
        ),
        make=sandboxes(commands.StderrMerged),
    ),
    Fault(
        "last line lost",
        ("exec.last-line", "exec.arguments-are-data", "stdin.given"),
        make=sandboxes(commands.LastLineLost),
    ),
    Fault(
        "no output is None",
        ("exec.no-output", "env.call-only", "env.nothing-inherited", "stdin.given"),
        make=sandboxes(commands.NothingIsNone),
    ),
    Fault(
        "output cut at 64 KiB",
        (
            "exec.multibyte",
            "exec.both-streams",
            "exec.long-line",
            "exec.order",
            "exec.output-at-bound",
            "stdin.large",
        ),
        make=sandboxes(commands.OutputCutAt64KiB),
    ),
    Fault(
        "non-UTF-8 raises",
        ("exec.undecodable", "stdin.given"),
        make=sandboxes(commands.UndecodableRaises),
    ),
    Fault("not found is 126", ("exec.not-found",), make=sandboxes(commands.NotFoundIs126)),
    Fault(
        "lists go through a shell",
        ("exec.list-without-shell", "exec.arguments-are-data"),
        make=sandboxes(commands.ListsThroughAShell),
    ),
    Fault(
        "no shell for strings",
        ("exec.string-by-shell",),
        make=sandboxes(commands.StringsWithoutAShell),
    ),
    Fault(
        "a declared capability raises",
        ("stdin.given", "stdin.large", "stdin.not-read", "stdin.refused"),
        make=sandboxes(commands.OddStdinRefused),
    ),
    Fault(
        "env of create dropped",
        ("env.create", "env.call", "env.nothing-inherited", "code.environment", "secrets.given"),
        make=commands.EnvOfCreateDropped,
    ),
    Fault(
        "env of a call dropped",
        (
            "env.create",
            "env.call",
            "env.call-only",
            "env.is-data",
            "env.odd-names",
            "env.overrides",
            "env.bad-names",
        ),
        make=sandboxes(commands.CallEnvDropped),
    ),
    Fault("env of a call kept", ("env.call-only",), make=sandboxes(commands.CallEnvKept)),
    Fault("secrets dropped", ("secrets.given",), make=commands.SecretsDropped),
    Fault(
        "cwd dropped",
        ("cwd.given", "cwd.missing", "cwd.not-a-directory"),
        make=sandboxes(commands.CwdDropped),
    ),
    Fault(
        "timeout ignored",
        (
            "timeout.raises",
            "timeout.confirmed",
            "timeout.siblings",
            "audit.failures",
            "sync.errors",
        ),
        make=sandboxes(commands.TimeoutIgnored),
    ),
    Fault(
        "timeout forgets output",
        ("timeout.partial-output",),
        make=sandboxes(commands.TimeoutForgetsOutput),
    ),
    Fault(
        "timeout not confirmed",
        ("timeout.confirmed",),
        make=sandboxes(commands.TimeoutNotConfirmed),
    ),
    Fault(
        "timeout kills the sibling",
        ("timeout.siblings",),
        "template",
        sandboxes(commands.TimeoutKillsAll),
    ),
    Fault(
        "timeout leaves a setsid grandchild",
        ("timeout.tree",),
        "template",
        sandboxes(commands.TimeoutKillsTheGroupOnly),
    ),
    Fault(
        "exit code read as a timeout",
        ("exec.signalled", "timeout.not-guessed"),
        make=sandboxes(commands.ExitCode137IsATimeout),
    ),
    Fault(
        "cancel leaks",
        ("timeout.callers-own", "cancel.run", "cancel.early"),
        "template",
        sandboxes(commands.CancelledRunIsForgotten),
    ),
    Fault(
        "cancellation wrapped in an error",
        ("timeout.callers-own", "cancel.run", "cancel.early", "cancel.identity", "cancel.siblings"),
        make=sandboxes(commands.CancellationBecomesAnError),
    ),
    Fault(
        "early break leaks",
        ("stream.left", "stream.other-task"),
        "template",
        sandboxes(commands.EarlyBreakLeaks),
    ),
    Fault(
        "wait not idempotent", ("stream.wait-again",), make=sandboxes(commands.WaitNotIdempotent)
    ),
    Fault(
        "streamed result not marked",
        ("stream.wait",),
        make=sandboxes(commands.WaitDoesNotSayStreamed),
    ),
    Fault(
        "no back-pressure",
        ("stream.back-pressure",),
        "template",
        sandboxes(commands.NoBackPressure),
    ),
    # ----- life
    Fault("create cancelled leaks", ("create.cancelled",), "template", life.CreateCancelledLeaks),
    Fault("builtin TimeoutError escapes", ("create.timeout",), make=life.CreateTimeoutIsABuiltin),
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
        ("create.bad-arguments", "managed.labels", "managed.filtered"),
        make=life.LabelsDropped,
    ),
    Fault("label filter ignored", ("managed.filtered",), make=life.LabelFilterIgnored),
    Fault(
        "kill_managed claims everything", ("managed.kill-unknown",), make=life.KillManagedAlwaysTrue
    ),
    Fault(
        "raw provider exception escapes", ("errors.cause", "sync.errors"), make=life.RawErrorEscapes
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
        ("files.missing", "files.links", "errors.shape", "errors.no-builtins"),
        make=sandboxes(life.MissingFileIsEmpty),
    ),
    Fault(
        "writes cut at 5 kB",
        ("files.round-trip", "files.read-bound", "transfer.failed-download"),
        make=sandboxes(life.WritesCut),
    ),
    Fault(
        "overwriting resets the mode",
        ("files.keeps-mode",),
        make=sandboxes(life.OverwritingResetsMode),
    ),
    Fault("ls returns the first page", ("files.ls-many",), make=sandboxes(life.ListsOnePage)),
    Fault(
        "upload follows links of the host",
        ("transfer.host-links", "transfer.host-kinds"),
        make=sandboxes(life.HostLinksFollowed),
    ),
    Fault("files written in place", ("files.atomic-write",), make=sandboxes(life.WritesInPlace)),
    # ----- secrets and records
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
        ),
        sink=life.OnlyCommandsRecorded,
    ),
    Fault(
        "failures not recorded",
        ("audit.each-operation", "audit.failures"),
        sink=life.FailuresUnrecorded,
    ),
    Fault("output of streams not counted", ("audit.stream",), sink=life.OutputUncounted),
    # ----- policy and isolation
    Fault(
        "deny does not deny",
        ("network.default", "network.deny-host", "network.deny-udp"),
        "template",
        instead(safety.DenyDoesNotDeny),
        missing=safety.DenyDoesNotDeny.missing,
        may_break=OUTSIDE,
    ),
    Fault(
        "host network given under deny",
        (
            "network.default",
            "network.verified",
            "network.deny-loopback",
            "network.deny-host",
            "network.deny-udp",
            "network.apart",
            "network.provider",
            "network.deny-abstract",
        ),
        "template",
        instead(safety.HostNetwork),
        may_break=OUTSIDE,
    ),
    Fault("privileged", ("isolation.not-privileged",), "template", instead(safety.Privileged)),
    Fault(
        "a host directory mounted",
        ("isolation.no-host-files", "isolation.no-host-paths"),
        "template",
        instead(safety.HostDirectoryMounted),
    ),
    Fault("cap not applied", ("caps.memory",), "template", instead(safety.MemoryCapNotApplied)),
    Fault("unset cap accepted", ("create.bad-arguments", "caps.unset"), make=safety.CapUnset),
    Fault(
        "allowlist ignored",
        ("create.bad-arguments", "capability.undeclared", "network.allowlist-refused"),
        "few",
        safety.AllowlistIgnored,
    ),
    Fault(
        "unknown egress taken for deny",
        ("create.bad-arguments", "network.unknown-refused"),
        make=safety.LearnIsDeny,
    ),
    Fault("gpu ignored", ("capability.undeclared", "caps.gpu-refused"), make=safety.GpuIgnored),
    Fault(
        "require_isolation ignored",
        ("create.bad-arguments", "isolation.required", "isolation.unknown"),
        make=safety.IsolationNotRequired,
    ),
    Fault(
        "undeclared capability works silently",
        ("capability.undeclared",),
        make=safety.SecretlyStreaming,
    ),
    Fault(
        "more declared than proven",
        ("capability.proven", "capability.sandbox-agrees"),
        make=safety.DeclaresTooMuch,
    ),
    Fault("tier overstated", ("isolation.reported",), make=sandboxes(safety.OverstatedSandbox)),
    Fault(
        "event loop blocked by a call",
        ("timeout.siblings", "concurrency.event-loop"),
        "template",
        sandboxes(safety.BlockingSandbox),
    ),
    Fault(
        "sandboxes share their files",
        ("caps.disk", "isolation.no-host-paths", "isolation.sandboxes-apart"),
        "template",
        instead(safety.FilesShared),
    ),
    # ----- the controls
    Fault("nothing is wrong with the fake", (), make=PassingBackend),
    Fault("nothing is wrong with the fake of few capabilities", (), "few", PassingBackend),
    Fault("nothing is wrong with the template", (), "template", PassingBackend),
)
