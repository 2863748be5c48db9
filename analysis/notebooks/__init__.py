"""The notebooks, and `python -m analysis.notebooks`, which runs them anew and keeps their outputs."""
