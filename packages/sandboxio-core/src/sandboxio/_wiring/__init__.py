"""Which backends exist: the only place that discovers."""
