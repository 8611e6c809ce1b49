"""A small POSIX shell for fake sandboxes."""
