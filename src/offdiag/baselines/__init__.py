"""The same face, other ideas."""
