"""`FakeBackend`, the pytest plugin and the adapter contract suite of sandboxio."""
