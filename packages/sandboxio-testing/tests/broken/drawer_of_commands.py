"""The part of the drawer with faults of commands, streams and code."""

from __future__ import annotations

import faults_of_commands as commands
from fault import Fault, sandboxes

__all__ = ["COMMANDS"]

COMMANDS = (
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
            "exec.no-interpreter",
            "exec.streams-apart",
            "exec.last-line",
            "exec.nul",
            "exec.undecodable",
            "exec.split-character",
            "exec.both-streams",
            "concurrency.many",
            "sync.works",
            "sync.in-a-running-loop",
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
        ("exec.list-without-shell", "exec.arguments-are-data", "audit.not-mangled"),
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
            "errors.no-builtins",
            "audit.no-secret",
        ),
        make=sandboxes(commands.CallEnvDropped),
    ),
    Fault("env of a call kept", ("env.call-only",), make=sandboxes(commands.CallEnvKept)),
    Fault(
        "secrets dropped",
        ("secrets.given", "audit.no-secret", "secrets.logs"),
        make=commands.SecretsDropped,
    ),
    Fault(
        "cwd dropped",
        (
            "cwd.given",
            "cwd.missing",
            "cwd.not-a-directory",
            "errors.no-builtins",
            "errors.shape",
            "audit.failures",
            "sync.errors",
        ),
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
            "errors.shape",
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
        ("stream.back-pressure", "audit.abandoned"),
        "template",
        sandboxes(commands.NoBackPressure),
    ),
    Fault(
        "env of a stream dropped",
        ("stream.surroundings",),
        make=sandboxes(commands.StreamEnvDropped),
    ),
    Fault("rich results dropped", ("code.results",), make=sandboxes(commands.RichResultsDropped)),
    Fault(
        "a descriptor left by each command",
        ("create.frees-descriptors", "exec.frees-descriptors"),
        make=sandboxes(commands.DescriptorForEachCommand),
    ),
)
