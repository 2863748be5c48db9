"""The kinds of attention that there are: `attention=grouped` (MHA, GQA, MQA) and `attention=latent` (MLA).

A new kind is one module beside these, its own subclass of `AttentionKind`, and one line here.
"""

from src.attention_kinds.grouped import Grouped
from src.attention_kinds.kind import AttentionKind, display_name, kind_of, own_settings, register, registered
from src.attention_kinds.latent import Latent

__all__ = ["BASELINE", "AttentionKind", "display_name", "kind_of", "own_settings", "register", "registered"]

BASELINE = register(Grouped())
"""The kind that every reference is of: what all others are compared with."""
register(Latent())
