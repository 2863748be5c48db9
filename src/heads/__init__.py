"""Diagnostics of heads: `python -m src.heads show`."""
