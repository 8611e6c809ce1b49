"""The tools, as a model reads them, and what each does."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from posixpath import dirname
from typing import Any

from mcp.types import CallToolResult, Tool, ToolAnnotations

from sandboxio.models import AppliedCap, AppliedPolicy, Capability, FileInfo
from sandboxio.protocols import AsyncSandbox

from ._config import ServerConfig
from ._content import file_page, page_result, ran, shown, text_result
from ._pages import PAGE_CHARACTERS, Pages

__all__ = ["TOOLS", "Call", "ToolSpec", "arguments_of", "described"]

CONTEXT = "run_python"
"""Name of the interpreter that `run_python` uses, where the backend has interpreters."""

MOST_ENTRIES = 500
"""Entries of a directory in the structured part of a result; its text has all, in pages."""


@dataclass(frozen=True)
class Call:
    """What a tool works with."""

    sandbox: AsyncSandbox
    pages: Pages
    config: ServerConfig


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool; it is required if it has no default."""

    name: str
    description: str
    type: type[str] | type[int] = str
    default: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """One tool.

    Attributes:
        name: Its name.
        title: For people.
        description: For the model; ``{…}`` are limits of this server.
        parameters: Its arguments.
        run: What it does. ``None`` for the tool that reads kept pages and needs no sandbox.
        reads: Whether it changes nothing.
        output: JSON Schema of the structured part of its result.
    """

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    run: Callable[[Call, Mapping[str, Any]], Awaitable[CallToolResult]] | None
    reads: bool = False
    output: dict[str, Any] | None = None


async def _run_python(call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
    # An interpreter that keeps variables is also the one that can display: where a backend has one,
    # it is taken, and where it has none, each call is a new one.
    stateful = Capability.STATEFUL_CODE in call.sandbox.capabilities
    done = await call.sandbox.run_code(
        arguments["code"],
        context_id=CONTEXT if stateful else None,
        timeout=call.config.call_timeout,
    )
    return ran(done, call.pages)


async def _run_command(call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
    done = await call.sandbox.run(arguments["command"], timeout=call.config.call_timeout)
    return ran(done, call.pages)


async def _read_file(call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
    path = arguments["path"]
    return page_result(file_page(path, await call.sandbox.files.read(path), call.pages))


async def _write_file(call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
    path, content = arguments["path"], arguments["content"]
    if parent := dirname(path):
        await call.sandbox.files.mkdir(parent, parents=True)
    await call.sandbox.files.write(path, content)
    return text_result(f"Wrote {len(content.encode())} bytes to {path}.")


async def _list_files(call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
    path = arguments["path"]
    entries = await call.sandbox.files.ls(path)
    lines = "\n".join(_line(entry) for entry in entries) or f"{path} is empty."
    result = page_result(call.pages.first(lines))
    result.structured_content = {
        "path": shown(path),
        "total": len(entries),
        "entries": [
            {"path": shown(entry.path), "size": entry.size, "is_dir": entry.is_dir}
            for entry in entries[:MOST_ENTRIES]
        ],
    }
    return result


async def _sandbox_info(call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
    sandbox = call.sandbox
    info: dict[str, Any] = {
        "backend": sandbox.backend,
        "id": sandbox.id,
        "isolation": sandbox.isolation.value,
        "capabilities": [one.name for one in Capability if one in sandbox.capabilities],
        "policy": _policy(sandbox.policy),
        "limits": {
            "seconds_per_call": call.config.call_timeout,
            "idle_seconds": call.config.idle,
            "characters_per_page": PAGE_CHARACTERS,
        },
    }
    return text_result(json.dumps(info, indent=1), structured=info)


def _line(entry: FileInfo) -> str:
    kind = "dir " if entry.is_dir else "link" if entry.is_link else "file"
    return f"{kind} {entry.size:>12}  {shown(entry.path)}"


def _policy(policy: AppliedPolicy) -> dict[str, Any]:
    return {
        "network": {
            "egress": policy.network.egress,
            "allow": list(policy.network.allow),
            "mechanism": policy.network_mechanism,
            "verified": policy.network_verified,
        },
        "lifetime_s": policy.lifetime_s,
        "cpu": _cap(policy.cpu),
        "memory_mb": _cap(policy.memory_mb),
        "processes": _cap(policy.processes),
        "disk_mb": _cap(policy.disk_mb),
        "notes": [shown(note) for note in policy.notes],
    }


def _cap(cap: AppliedCap | None) -> dict[str, Any] | None:
    if cap is None:
        return None
    return {"value": cap.value, "mechanism": cap.mechanism, "verified": cap.verified}


RUN_OUTPUT: dict[str, Any] = {
    "type": "object",
    "required": ["exit_code", "stdout", "stderr", "results", "more"],
    "properties": {
        "exit_code": {"type": "integer", "description": "0 is success; 128+n: died of signal n"},
        "stdout": {"type": "string", "description": "its first page"},
        "stderr": {"type": "string", "description": "its first page"},
        "results": {
            "type": "array",
            "description": "what the program displayed; `content` is the index of its block",
            "items": {
                "type": "object",
                "properties": {"mime_type": {"type": "string"}, "content": {"type": "integer"}},
            },
        },
        "more": {
            "type": "array",
            "description": "for each stream with more pages, the handle for read_more",
            "items": {
                "type": "object",
                "properties": {
                    "stream": {"type": "string"},
                    "handle": {"type": "string"},
                    "pages": {"type": "integer"},
                },
            },
        },
    },
}

PATH = "Path in the sandbox; a relative one starts at the working directory, as in run_command."

ALL = (
    ToolSpec(
        name="run_python",
        title="Run Python",
        description=(
            "Run a Python program in the sandbox and return what it printed and its exit code. "
            "Do not count on variables of earlier calls: each call may be a new interpreter. Files "
            "persist. Print what you want to see. To look at an image, save it to a file and call "
            "read_file. "
            "{network} A call is stopped after {seconds} s."
        ),
        parameters=(Parameter("code", "The whole program, not a file name."),),
        run=_run_python,
        output=RUN_OUTPUT,
    ),
    ToolSpec(
        name="run_command",
        title="Run a shell command",
        description=(
            "Run a shell command (/bin/sh -c) in the sandbox and return its stdout, stderr and "
            "exit code. Each call is a new shell in the working directory: cd and variables do not "
            "persist, files do. There is no stdin. {network} A call is stopped after {seconds} s, "
            "with all that it started; for a server or long work, end the command with "
            "`> out.txt 2>&1 &`."
        ),
        parameters=(Parameter("command", "For example: ls -la | head"),),
        run=_run_command,
        output=RUN_OUTPUT,
    ),
    ToolSpec(
        name="read_file",
        title="Read a file",
        description=(
            "Read a file of the sandbox: text as text, PNG, JPEG, GIF and WebP as an image, other "
            "binary data as base64. A large file comes in pages; see read_more."
        ),
        parameters=(Parameter("path", PATH),),
        run=_read_file,
        reads=True,
    ),
    ToolSpec(
        name="write_file",
        title="Write a file",
        description=(
            "Write a text file in the sandbox. What was there is replaced, and missing directories "
            "are made. For binary data, write it with run_python."
        ),
        parameters=(
            Parameter("path", PATH),
            Parameter("content", "The whole content, as text; at most 2 million characters."),
        ),
        run=_write_file,
    ),
    ToolSpec(
        name="list_files",
        title="List a directory",
        description="List one directory of the sandbox, not what is below it.",
        parameters=(Parameter("path", PATH, default="."),),
        run=_list_files,
        reads=True,
    ),
    ToolSpec(
        name="sandbox_info",
        title="Describe the sandbox",
        description=(
            "Return the sandbox's backend, isolation, capabilities, limits, and the policy in "
            "force: what was applied and read back, not what was asked for."
        ),
        run=_sandbox_info,
        reads=True,
    ),
    ToolSpec(
        name="read_more",
        title="Read the next page",
        description=(
            "Return another page of a large result. The result names the handle and the page; "
            "only the last few large results are kept."
        ),
        parameters=(
            Parameter("handle", "As the result named it."),
            Parameter("page", "Counted from 1.", type=int),
        ),
        run=None,
        reads=True,
    ),
)

TOOLS = {tool.name: tool for tool in ALL}

LONGEST_ARGUMENT = 2_000_000
"""Characters; the HTTP transport takes a request of 4 MiB, and JSON may double them."""


def described(config: ServerConfig) -> list[Tool]:
    """Return the tools as they are listed, with the limits of this server in their words."""
    open_world = config.network is not None and config.network.egress != "deny"
    network = _network(config)
    return [
        Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description.format(
                seconds=f"{config.call_timeout:g}", network=network
            ),
            input_schema=_schema(tool),
            output_schema=tool.output,
            annotations=ToolAnnotations(
                read_only_hint=tool.reads,
                destructive_hint=not tool.reads,
                open_world_hint=open_world and not tool.reads,
            ),
        )
        for tool in ALL
    ]


def _network(config: ServerConfig) -> str:
    policy = config.network
    if policy is not None and policy.egress == "allow":
        return "The network can be reached."
    if policy is not None and policy.allow:
        return f"Of the network only these can be reached: {', '.join(policy.allow)}."
    return "There is no network: nothing can be downloaded or installed from it."


def _schema(tool: ToolSpec) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for parameter in tool.parameters:
        kind = "integer" if parameter.type is int else "string"
        properties[parameter.name] = {"type": kind, "description": parameter.description}
        if parameter.default is not None:
            properties[parameter.name]["default"] = parameter.default
    required = [parameter.name for parameter in tool.parameters if parameter.default is None]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def arguments_of(tool: ToolSpec, given: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return the arguments of a call, or what is wrong with them, without a word of their values."""
    known = {parameter.name: parameter for parameter in tool.parameters}
    unknown = sorted(given.keys() - known.keys())
    takes = f"{tool.name} takes: {', '.join(known) or 'no arguments'}."
    if unknown:
        return f"{tool.name} has no argument {unknown[0][:100]!r}. {takes}"
    arguments: dict[str, Any] = {}
    for name, parameter in known.items():
        value = given.get(name, parameter.default)
        if value is None:
            return f"{tool.name} needs the argument {name!r}. {takes}"
        # A bool is an int to Python, and no page number to anybody.
        if not isinstance(value, parameter.type) or isinstance(value, bool):
            kind = "an integer" if parameter.type is int else "a string"
            return f"The argument {name!r} of {tool.name} must be {kind}."
        if isinstance(value, str) and len(value) > LONGEST_ARGUMENT:
            return f"The argument {name!r} of {tool.name} is longer than {LONGEST_ARGUMENT}."
        arguments[name] = value
    return arguments
