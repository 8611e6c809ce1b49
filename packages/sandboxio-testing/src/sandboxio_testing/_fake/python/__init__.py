"""A model of very little Python: what it does not know, it refuses."""
