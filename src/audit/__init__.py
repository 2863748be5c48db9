"""What a comparison of head counts holds equal and what else changes with them, before anything is trained."""
