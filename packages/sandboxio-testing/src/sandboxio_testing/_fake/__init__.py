"""The fake backend: a small simulated machine behind the same engine as every other backend."""
