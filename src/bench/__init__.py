"""Decode and prefill speed over heads, kv-heads, attention kinds, context and batch, beside what naive code does.

arms     which models are measured, and how each decodes
measure  times of an arm, taken turn by turn with the others
memory   how fast this device reads
table    for people
plot     for people who would rather look
"""
