"""The library's one logger. It prints nothing by itself and configures nothing."""

from __future__ import annotations

import logging
import os
from functools import lru_cache

__all__ = ["library_logger"]


@lru_cache(maxsize=1)
def library_logger() -> logging.Logger:
    """Return the logger ``sandboxio``, with a handler that keeps Python from printing its records.

    ``SBX_DEBUG=1`` lowers its level to DEBUG, at which every operation is one record; where the
    records go is for the host application to say.
    """
    logger = logging.getLogger("sandboxio")
    logger.addHandler(logging.NullHandler())
    if os.environ.get("SBX_DEBUG") == "1":
        logger.setLevel(logging.DEBUG)
    return logger
