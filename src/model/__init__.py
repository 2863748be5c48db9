"""GPT models over head counts, kv-heads and attention kinds.

The legend of shapes stands in `src`; beside it, written together as one letter group:

    HD, KD  all heads, or kv-heads, side by side      DP  a head's width and the rotary key's, D + P
    Dv      width of a value, where it is not D       RP  latent and rotary key side by side, R + P
"""
