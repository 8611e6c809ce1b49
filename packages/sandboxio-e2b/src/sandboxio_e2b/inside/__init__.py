"""What runs inside a sandbox; sent there as text, never imported."""
