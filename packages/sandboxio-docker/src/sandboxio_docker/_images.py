"""Images: what they are, pulling them, and the users that they name."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import anyio

from sandboxio.errors import CreateTimeout, CreationError
from sandboxio.spi import Progress

from ._layers import Layers

if TYPE_CHECKING:
    from ._client import Engine

__all__ = ["numeric_user", "pull"]

REPORT_EVERY = 2.0
"""Seconds between two lines of progress in a log; an engine sends hundreds a second."""

SHOW_EVERY = 0.1
"""Seconds between two looks of who watches a bar."""

logger = logging.getLogger("sandboxio.docker")


async def pull(engine: Engine, image: str, platform: str | None, bound: float) -> None:
    """Pull an image, with a deadline of its own, and log the progress.

    Raises:
        CreateTimeout: It was not done within `bound` seconds.
    """
    what = f"Pulling the image {image}"
    Progress(what=what).log(logger)
    layers = Layers()
    shown = logged = time.monotonic()

    def report(answer: dict[str, Any]) -> None:
        nonlocal shown, logged
        layers.learn(answer)
        now = time.monotonic()
        if now - shown < SHOW_EVERY:
            return
        shown = now
        level = logging.DEBUG
        if now - logged > REPORT_EVERY:
            logged, level = now, logging.INFO
        Progress(what=what, done=layers.done, total=layers.total).log(logger, level)

    try:
        with anyio.move_on_after(bound):
            await engine.pull(image, platform, report)
            logger.info("Pulled the image %s.", image)
            return
    finally:
        Progress(what=what, done=layers.done, total=layers.total, over=True).log(
            logger, logging.DEBUG
        )
    raise CreateTimeout(
        f"The image {image} was not pulled within {bound:g} s.",
        hint="Raise DockerConfig(pull_timeout=...), or pull it beforehand with docker pull.",
    )


async def numeric_user(engine: Engine, ref: str, user: str) -> tuple[int, int]:
    """Return the numbers of an image's ``USER``, looked up in a container of it.

    Raises:
        CreationError: The image does not know that user.
    """
    name, _, group = user.partition(":")
    accounts = await _accounts(engine, ref, "/etc/passwd") if not name.isdigit() else []
    if name.isdigit():
        uid, gid = int(name), 0
    else:
        known = {fields[0]: fields for fields in accounts if len(fields) > 3}
        if name not in known:
            raise CreationError(
                f"The image runs as {name!r}, and has no such user.", retryable=False
            )
        uid, gid = int(known[name][2]), int(known[name][3])
    if group.isdigit():
        gid = int(group)
    elif group:
        groups = {fields[0]: fields for fields in await _accounts(engine, ref, "/etc/group")}
        if group not in groups or len(groups[group]) < 3:
            raise CreationError(
                f"The image runs in group {group!r}, and has no such group.", retryable=False
            )
        gid = int(groups[group][2])
    return uid, gid


async def _accounts(engine: Engine, ref: str, path: str) -> list[list[str]]:
    content = await engine.get_file(ref, path)
    lines = (content or b"").decode("utf-8", "replace").splitlines()
    found = [line.split(":") for line in lines]
    return [fields for fields in found if len(fields) > 2 and fields[2].isdigit()]
