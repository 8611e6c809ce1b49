"""The E2B backend of sandboxio."""
