"""Decode and prefill speed over heads, kv-heads, attention kinds, context and batch, beside what naive code does."""
