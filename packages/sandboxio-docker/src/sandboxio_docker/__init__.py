"""The Docker Engine backend of sandboxio."""
