"""Spans of sandbox operations: the one module that knows the names of OpenTelemetry attributes.

If the host application has a tracer provider, every operation is an ``execute_tool`` span of the
GenAI conventions, under the span that is current. If it has none, nothing happens and nothing is
imported: a provider cannot exist without the OpenTelemetry API, so an API that nobody loaded means
that there is none. sandboxio never starts a provider and never installs an exporter.

The conventions have no vocabulary for a sandbox. The operation and the name of the tool are theirs,
all else is ``sandboxio.*``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module, metadata
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

__all__ = [
    "SEMCONV_VERSION",
    "attributes_of",
    "end_span",
    "make_current",
    "make_past",
    "provider",
    "start_span",
    "tracer_of",
]

SEMCONV_VERSION = "0.1.0"
"""Release of ``open-telemetry/semantic-conventions-genai`` that spans follow, as read on 2026-11-30.

It is the first one of the GenAI conventions on their own: until 1.41.0 they were a part of the
general semantic conventions. Its ``execute_tool`` span has the names that 1.37.0 has.
"""

OPERATION_NAME = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
TOOL_NAME = "gen_ai.tool.name"
ERROR_TYPE = "error.type"

EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"

ATTRIBUTES = {
    "sandbox_id": "sandboxio.sandbox.id",
    "backend": "sandboxio.backend",
    "isolation": "sandboxio.isolation",
    "tenant_id": "sandboxio.tenant_id",
    "session_id": "sandboxio.session_id",
    "outcome": "sandboxio.outcome",
    "exit_code": "sandboxio.exit_code",
    "duration_ms": "sandboxio.duration_ms",
    "waiting_ms": "sandboxio.waiting_ms",
    "running_ms": "sandboxio.running_ms",
    "bytes_in": "sandboxio.bytes_in",
    "bytes_out": "sandboxio.bytes_out",
    "network_denials": "sandboxio.network_denials",
    "code_sha256": "sandboxio.code_sha256",
    "argv": "sandboxio.argv",
    "path": "sandboxio.path",
    "code": "sandboxio.code",
    "error_code": "sandboxio.error.code",
}
"""Field of an audit event → attribute. What is ``None`` or empty is left out."""

POLICY = "sandboxio.policy."
"""Prefix of what is in force on the sandbox: ``egress``, ``memory_mb`` and so on."""

ROUTING = "sandboxio.routing."
"""Prefix of the routing decision's plain values."""

PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
"""Lets OpenTelemetry make a provider by itself when it is first asked, so it has to be asked."""


def provider() -> TracerProvider | None:
    """Return the tracer provider of the host application, or ``None`` if it has none."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        if not os.environ.get(PROVIDER_VARIABLE):
            return None
        trace = _import_api()
    # In the middle of its own import, in another thread, the module has no function yet.
    get = getattr(trace, "get_tracer_provider", None)
    if get is None:
        return None
    found: TracerProvider = get()
    # What the API hands out while there is none.
    proxy = getattr(trace, "ProxyTracerProvider", None)
    return None if proxy is not None and isinstance(found, proxy) else found


def _import_api() -> ModuleType | None:
    try:
        return import_module("opentelemetry.trace")
    except ImportError:
        return None


def tracer_of(source: TracerProvider) -> Tracer:
    """Return the tracer of sandboxio."""
    return source.get_tracer("sandboxio", _version())


@lru_cache(maxsize=1)
def _version() -> str:
    return metadata.version("sandboxio-core")


def start_span(tracer: Tracer, tool: str) -> Span | None:
    """Open a span under the current one; ``None`` if it is not sampled or goes nowhere."""
    span = tracer.start_span(
        f"{EXECUTE_TOOL} {tool}", attributes={OPERATION_NAME: EXECUTE_TOOL, TOOL_NAME: tool}
    )
    return span if span.is_recording() else None


def make_current(span: Span) -> object:
    """Let spans that begin in this task nest under `span`; the answer is for `make_past`."""
    from opentelemetry import context, trace

    return context.attach(trace.set_span_in_context(span))


def make_past(token: object) -> None:
    """Undo `make_current`, in the same task."""
    from opentelemetry import context

    context.detach(cast("Token[Context]", token))


def attributes_of(fields: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return the attributes for the fields of an event, as ``AuditEvent.as_dict()`` gives them."""
    found: dict[str, AttributeValue] = {}
    for field, name in ATTRIBUTES.items():
        value = fields.get(field)
        if value is not None and value not in ("", []):
            found[name] = cast("AttributeValue", value)
    if fields.get("error_type") is not None:
        found[ERROR_TYPE] = str(fields["error_type"])
    policy = fields.get("policy")
    if isinstance(policy, dict):
        found.update(_policy_attributes(cast("dict[str, object]", policy)))
    routing = fields.get("routing")
    if isinstance(routing, Mapping):
        for key, value in cast("Mapping[str, object]", routing).items():
            if isinstance(value, str | int | float):
                found[f"{ROUTING}{key}"] = value
    return found


def _policy_attributes(policy: dict[str, object]) -> dict[str, AttributeValue]:
    network = cast("dict[str, object]", policy["network"])
    found: dict[str, AttributeValue] = {
        f"{POLICY}egress": str(network["egress"]),
        f"{POLICY}network_verified": bool(policy["network_verified"]),
        f"{POLICY}lifetime_s": cast("float", policy["lifetime_s"]),
    }
    if network["allow"]:
        found[f"{POLICY}allow"] = cast("list[str]", network["allow"])
    for name in ("cpu", "memory_mb", "processes", "disk_mb"):
        cap = policy[name]
        if isinstance(cap, dict):
            found[f"{POLICY}{name}"] = cast("dict[str, float]", cap)["value"]
    return found


def end_span(span: Span, fields: Mapping[str, object], *, ended_ns: int) -> None:
    """Give a span its attributes, record the error if there was one, and end it."""
    span.set_attributes(attributes_of(fields))
    kind = fields.get("error_type")
    if kind is not None:
        from opentelemetry.trace import Status, StatusCode

        message = str(fields.get("error") or "")
        # Not `record_exception`: it adds the traceback, and with it lines of the caller's source.
        span.add_event(
            EXCEPTION_EVENT,
            {EXCEPTION_TYPE: str(kind), EXCEPTION_MESSAGE: message},
            timestamp=ended_ns,
        )
        span.set_status(Status(StatusCode.ERROR, message))
    span.end(end_time=ended_ns)
