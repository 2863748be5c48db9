"""Everything between the input and the output of one attention layer, for readers, diagnostics and plots."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Inside:
    """One layer opened up, in the order of computation.

    The features hold all heads side by side; `queries`, `keys` and `values` are the same numbers a head apart,
    queries and keys turned by rotary positions where the model has them. `scores` are scaled and not yet masked;
    `weights` are what the softmax leaves after the mask. `latent` is null in grouped attention.
    """

    query_features: Float[Tensor, "B T HD"]
    key_features: Float[Tensor, "B S KD"]
    value_features: Float[Tensor, "B S KDv"]
    queries: Float[Tensor, "B H T D"]
    keys: Float[Tensor, "B K S D"]
    values: Float[Tensor, "B K S Dv"]
    scores: Float[Tensor, "B H T S"]
    weights: Float[Tensor, "B H T S"]
    heads: Float[Tensor, "B H T Dv"]
    concatenated: Float[Tensor, "B T HDv"]
    output: Float[Tensor, "B T E"]
    latent: Float[Tensor, "B S R"] | None = None
