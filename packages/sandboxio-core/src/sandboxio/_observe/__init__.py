"""What is told about operations, and what must never be told."""
