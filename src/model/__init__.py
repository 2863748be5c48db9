"""GPT models over head counts, kv-heads and attention kinds. The legend of shapes stands in `src`."""
