"""What a model of vectors costs: the blocks of `src.costs` between other ends. It decodes nothing, so has no cache."""

from __future__ import annotations

from src import costs
from src.ends import VectorEnds
from src.geometry import Geometry


def parameters(geometry: Geometry, ends: VectorEnds) -> int:
    """All parameters: input layer, query, positions, blocks and norms, output layer."""
    g = geometry
    positions = g.context_length * g.d_model if g.positions == "learned" else 0
    query = g.d_model if ends.is_pooled else 0
    biases = (g.d_model + ends.outputs) * (g.linear_ends and g.bias)
    return _end_weights(g, ends) + biases + query + positions + costs.non_embedding_parameters(g)


def training_flops_per_token(geometry: Geometry, ends: VectorEnds) -> int:
    """FLOPs of forward and backward for one vector: those of a sequence, shared out over its vectors and rounded.

    A pooled query is a position more in the blocks and in no count of tokens; its answer is the only one.
    """
    g, vectors = geometry, geometry.context_length
    positions, answers = (vectors + 1, 1) if ends.is_pooled else (vectors, vectors)
    blocks = costs.forward_flops_per_token(g, vocabulary_size=0, positions=positions) * positions
    entering = 2 * vectors * ends.features * g.d_model if g.linear_ends else 0
    leaving = 2 * answers * ends.outputs * g.d_model if g.linear_ends else 0
    return round(3 * (blocks + entering + leaving) / vectors)


def _end_weights(geometry: Geometry, ends: VectorEnds) -> int:
    return (ends.features + ends.outputs) * geometry.d_model if geometry.linear_ends else 0
