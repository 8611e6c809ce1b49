"""Making one sandbox: start, verify, write down; or leave nothing."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import anyio

from sandboxio.errors import CreationError, SandboxGone
from sandboxio.spi import GuestChannel, GuestInit, SocketTransport, run_to_the_end
from sandboxio_local import _applied, _errors, _record
from sandboxio_local._garbage import HELD_BOUND, collect_abandoned
from sandboxio_local._identity import id_for
from sandboxio_local._launch import END_BOUND, KILL_BOUND, Descriptors, Warden, Wardens
from sandboxio_local._layout import WORKDIR
from sandboxio_local._plan import Plan, listen
from sandboxio_local._processes import start_time
from sandboxio_local._sandbox import LocalNative, LocalSandbox
from sandboxio_local._state import CONTROL, StateDirectory

if TYPE_CHECKING:
    from sandboxio_local._warden.options import Options

__all__ = ["provision"]

START_BOUND: Final = 30.0
"""Seconds from the start of a warden to a guest that answers; it takes some thirty milliseconds."""

UNDO_GRACE: Final = END_BOUND + KILL_BOUND + HELD_BOUND
"""Seconds to undo a failed or cancelled start: what ending a sandbox takes at worst."""


_SILENT: Final = "ended died: its warden was killed"


async def provision(plan: Plan, wardens: Wardens) -> LocalSandbox:
    """Make a sandbox, and hand its warden to those who look after wardens.

    Raises:
        CreationError: It could not be made as it was asked for. Nothing of it is left.
    """
    await collect_abandoned()
    state, lock = StateDirectory.create(plan.request.name)
    warden: Warden | None = None
    ours: socket.socket | None = None
    try:
        try:
            state.write(_record.MADE, _record.made(plan.caps, dict(plan.request.metadata)))
            warden, ours = _start(plan, state, lock)
            wardens.add(warden)
        finally:
            os.close(lock)  # the warden has it now
        with anyio.move_on_after(START_BOUND):
            return await _made(plan, state, warden, ours)
        raise CreationError(f"The sandbox was not ready within {START_BOUND:g} s.")
    except BaseException:
        if ours is not None:
            ours.close()
        if warden is not None:
            await run_to_the_end(warden.end, grace=UNDO_GRACE)
        else:
            state.remove()
        raise


def _start(plan: Plan, state: StateDirectory, lock: int) -> tuple[Warden, socket.socket]:
    """Start the warden; returns it and our end of the guest's channel."""
    with ExitStack() as stack:
        descriptors = Descriptors(stack)
        listener = stack.enter_context(listen(state.path / CONTROL))
        uid, claim = stack.enter_context(id_for(plan.request.name))
        control, wardens = descriptors.pair(socket.SOCK_SEQPACKET)
        channel, guests = descriptors.pair(socket.SOCK_STREAM)
        try:
            options: Options = plan.options(uid, descriptors, guests.fileno(), listener.fileno())
            options.control = wardens.fileno()
            options.directory = str(state.path)
            options.lock = lock
            options.owner = os.getpid()
            if claim is not None:
                options.hold = [claim.fileno()]
            return Warden(state, control, options), channel
        except BaseException:
            control.close()
            channel.close()
            raise


async def _made(
    plan: Plan, state: StateDirectory, warden: Warden, ours: socket.socket
) -> LocalSandbox:
    report = await warden.message() or _SILENT
    if not report.startswith("started "):
        raise _errors.failure(report)
    request = plan.request
    init = GuestInit(
        env=request.env,
        secret_names=request.secret_names,
        workdir=WORKDIR,
        lifetime=request.timeout,
    )
    try:
        channel = await GuestChannel.open(SocketTransport(ours), init)
    except SandboxGone as error:
        raise _errors.failure(await warden.message() or _SILENT) from error
    pid = int(report.split()[1])
    groups = plan.caps.groups
    native = LocalNative(
        init=pid,
        init_started=start_time(pid) or 0,
        directory=state.path,
        groups=groups.join if groups else (),
        events=groups.events if groups else "",
    )
    try:
        policy = _applied.policy(
            plan.caps,
            init=pid,
            network=request.network,
            egress=plan.egress,
            lifetime=request.timeout,
            readable=plan.readable,
        )
    except OSError as error:
        raise CreationError(f"The sandbox ended while it was verified: {error}") from error
    state.write(_record.LIVE, _record.live(native, policy))
    return LocalSandbox(channel, native=native, policy=policy, end=warden.end)
