"""The few settings that the environment may change, read when they are needed."""

from __future__ import annotations

import math
import os

from ..errors import ConfigurationError

__all__ = ["audit_timeout", "max_output_bytes", "teardown_grace"]


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise ConfigurationError(
            f"The environment variable {name} must be a number above 0.",
            hint=f"Set {name} to a number, or unset it (default: {default:g}).",
        )
    return value


def max_output_bytes() -> int:
    """Bytes that one call may hold in memory: ``SBX_MAX_OUTPUT_MB``, default 64 MiB."""
    return int(_positive("SBX_MAX_OUTPUT_MB", 64) * 1024 * 1024)


def teardown_grace() -> float:
    """Seconds that a teardown may take: ``SBX_TEARDOWN_GRACE``, default 5."""
    return _positive("SBX_TEARDOWN_GRACE", 5)


def audit_timeout() -> float:
    """Seconds that the audit sinks of one operation may take: ``SBX_AUDIT_TIMEOUT``, default 5."""
    return _positive("SBX_AUDIT_TIMEOUT", 5)
