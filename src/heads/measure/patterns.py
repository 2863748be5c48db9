"""Where heads look. Scores are shares of attention: 1 means that all of it goes where the score's name says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from src.randomness import random_words, stream_seed

SCORES = ("previous_token", "first_token", "same_token", "duplicate_token", "induction")
"""The scores that can name a role, in the order of tables and pictures."""
SHORTEST_PERIOD = 3  # with two tokens, the one after the earlier copy is the previous one
Scores = dict[str, Float[Tensor, " H"]]


@dataclass(frozen=True)
class Probe:
    """Random tokens, all different, said again and again: rows of `period` tokens repeated to the end.

    Source: the repeated random tokens of TransformerLens' demos; Olsson et al. 2022.
    """

    tokens: Int[Tensor, "N T"]
    period: int


def repeated_tokens(vocabulary_size: int, length: int, sequences: int) -> Probe | None:
    """The probe for a model that reads so many tokens; always the same one. None where no text of 3 is said twice.

    >>> probe = repeated_tokens(vocabulary_size=5, length=8, sequences=2)
    >>> probe.period, [len(set(row)) for row in probe.tokens.tolist()]
    (4, [4, 4])
    """
    period = min(length // 2, vocabulary_size)
    if period < SHORTEST_PERIOD:
        return None
    words = random_words(stream_seed(0, "evaluation", "repeated tokens"), 0, sequences * vocabulary_size)
    text = np.argsort(words.reshape(sequences, vocabulary_size), axis=1, kind="stable")[:, :period]  # N period
    return Probe(torch.from_numpy(text[:, np.arange(length) % period]), period)


def pattern_scores(weights: Float[Tensor, "N H T T"], period: int) -> Scores:
    """The five scores of each head on the probe of this period.

    previous_token   weight on the token before, mean over the queries that have one
    first_token      weight on the first token (a sink), mean over the queries from the third on
    same_token       weight on the query's own token, mean over the queries from the second on
    duplicate_token  weight on earlier copies of the query's token, mean over the queries that have one
    induction        weight on the tokens that followed those copies, mean over the same queries
    """
    queries, keys = _places(weights)
    back = queries - keys
    is_copy = (back > 0) & (back % period == 0)
    follows_copy = (back >= 0) & ((back + 1) % period == 0) & (keys > 0)  # the first token follows none
    repeated = weights[:, :, period:]
    return {
        "previous_token": weights.diagonal(-1, 2, 3).mean((0, 2)),
        "first_token": weights[:, :, 2:, 0].mean((0, 2)),
        "same_token": weights.diagonal(0, 2, 3)[:, :, 1:].mean((0, 2)),
        "duplicate_token": (repeated * is_copy[period:]).sum(3).mean((0, 2)),
        "induction": (repeated * follows_copy[period:]).sum(3).mean((0, 2)),
    }


def entropy(weights: Float[Tensor, "N H T S"], *, is_causal: bool) -> Float[Tensor, " H"]:
    """Entropy of each head's weights over that of a uniform head, mean over the queries that have a choice: 0 to 1."""
    nats = torch.special.entr(weights).sum(3)  # N H T
    queries, keys = weights.shape[2:]
    seen = torch.arange(1, queries + 1) if is_causal else torch.full((queries,), keys)
    seen = seen.to(weights.device)
    uniform = seen.to(weights).log()
    return (nats[:, :, seen > 1] / uniform[seen > 1]).mean((0, 2)).clamp(0.0, 1.0)


def distance(weights: Float[Tensor, "N H T T"]) -> Float[Tensor, " H"]:
    """How many tokens back a head looks, weighted by attention and averaged over queries.

    Source: Vig and Belinkov 2019, section 4.3.
    """
    queries, keys = _places(weights)
    return (weights * (queries - keys)).sum(3).mean((0, 2))


def pattern_similarity(weights: Float[Tensor, "N H T S"]) -> Float[Tensor, "H H"]:
    """1 minus the Jensen-Shannon divergence of two heads' weights in bits, mean over queries: 1 alike, 0 nowhere alike.

    Queries that see one key are left out: there all heads agree. Source: Clark et al. 2019, section 6 (the
    divergence; theirs is summed over queries).
    """
    has_choice = (weights > 0).sum(3).amax((0, 1)) > 1
    rows = weights[:, :, has_choice].transpose(0, 1)  # H N T S
    own = torch.special.entr(rows).sum(3)  # H N T
    similarity = torch.ones(len(rows), len(rows), dtype=weights.dtype, device=weights.device)
    for one in range(len(rows) - 1):  # a pair of heads at a time would hold H x H patterns at once
        middle = torch.special.entr((rows[one] + rows[one + 1 :]) / 2).sum(3)
        divergence = (middle - (own[one] + own[one + 1 :]) / 2).mean((1, 2)) / np.log(2)
        similarity[one, one + 1 :] = similarity[one + 1 :, one] = 1 - divergence.clamp(0.0, 1.0)
    return similarity


def _places(weights: Tensor) -> tuple[Tensor, Tensor]:
    queries, keys = weights.shape[2:]
    return torch.arange(queries, device=weights.device)[:, None], torch.arange(keys, device=weights.device)[None]
