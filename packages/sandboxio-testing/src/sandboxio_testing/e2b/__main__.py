"""Serve until interrupted, and say what to export."""

from __future__ import annotations

import argparse
import signal
import threading

from sandboxio import Resources

from ._server import LocalE2B


def main() -> None:
    """Start the server."""
    parser = argparse.ArgumentParser(prog="python -m sandboxio_testing.e2b", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="to listen on (default: a free one)")
    parser.add_argument("--api-key", help="that requests must carry (default: made up)")
    parser.add_argument("--memory-mb", type=int, default=1024, help="of each sandbox")
    parser.add_argument("--limit", type=int, default=100, help="sandboxes at the same time")
    options = parser.parse_args()
    resources = Resources(memory_mb=options.memory_mb)
    server = LocalE2B(
        port=options.port, api_key=options.api_key, resources=resources, limit=options.limit
    )
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: over.set())
    with server:
        for name, value in server.environ.items():
            print(f"export {name}={value}", flush=True)  # noqa: T201 - that is what it is for
        over.wait()


if __name__ == "__main__":
    main()
