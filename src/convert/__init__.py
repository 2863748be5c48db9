"""Runs made of other runs: `python -m src.convert RUN kv_heads=2`.

weights   a model's weights in another shape: shared kv-heads, a latent, fewer heads
derived   a run that begins with such weights: its settings, its folder, its record with the parent
"""
