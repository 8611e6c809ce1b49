"""The programs of a fake sandbox: few, small, and honest about what they cannot do."""
