"""The model of vectors: the blocks of a GPT with another input and output, and every position sees every other."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from src.geometry import Geometry
from src.io_spec import VectorSpec
from src.model.attention import Intermediates
from src.model.gpt import Block, look_inside_blocks
from src.model.norms import make_norm


class VectorModel(nn.Module):
    """A transformer encoder from vectors to vectors.

    x_1 .. x_T  ->  input layer  ->  blocks  ->  norm  ->  output layer  ->  an answer a position
    x_1 .. x_T  ->  input layer  ->  [x_1 .. x_T, query]  ->  ...  ->  the answer at the query (pooled)

    Without `linear_ends` vectors enter and leave as they are. The query is learned (as in Devlin et al. 2019, the
    first token of BERT); positions, where the model learns them, are added to the vectors.
    """

    def __init__(self, geometry: Geometry, spec: VectorSpec, dropout: float = 0.0, kernel: str = "auto") -> None:
        super().__init__()
        g = geometry
        self.geometry, self.spec = geometry, spec
        self.input = nn.Linear(spec.features, g.d_model, bias=g.bias) if g.linear_ends else None
        self.query = nn.Embedding(1, g.d_model) if spec.is_pooled else None
        self.positions = nn.Embedding(g.context_length, g.d_model) if g.positions == "learned" else None
        self.dropout = nn.Dropout(dropout) if dropout else None
        seen = replace(g, context_length=g.context_length + spec.is_pooled)
        self.blocks = nn.ModuleList(Block(seen, layer, dropout, kernel, is_causal=False) for layer in range(g.layers))
        self.norm = make_norm(g)
        self.output = nn.Linear(g.d_model, spec.outputs, bias=g.bias) if g.linear_ends else None

    def forward(self, vectors: Float[Tensor, "B T F"]) -> Float[Tensor, "B A O"]:
        """One answer a position, or one for the sequence.

        Raises ValueError past the context length: no position beyond it was trained.
        """
        length = vectors.shape[1]
        if length > self.geometry.context_length:
            raise ValueError(f"{length} positions; the model's context_length is {self.geometry.context_length}")
        x = self.enter(vectors)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)

    def look_inside(self, vectors: Float[Tensor, "B T F"]) -> list[Intermediates]:
        """Every layer's attention opened up, on its way through the whole model."""
        return look_inside_blocks(self.blocks, self.enter(vectors))

    def enter(self, vectors: Float[Tensor, "B T F"]) -> Float[Tensor, "B P E"]:
        """What the first block reads: a position a vector, and the query behind them where there is one."""
        x = vectors.to(next(self.parameters()).dtype)
        if self.input is not None:
            x = self.input(x)
        if self.positions is not None:
            x = x + self.positions.weight[: x.shape[1]]
        if self.query is not None:
            x = torch.cat([x, self.query.weight.to(x.dtype).expand(x.shape[0], 1, -1)], dim=1)
        return x if self.dropout is None else self.dropout(x)

    def leave(self, x: Float[Tensor, "B P E"]) -> Float[Tensor, "B A O"]:
        """The answers, of what the last block wrote."""
        x = self.norm(x[:, -1:] if self.query is not None else x)
        return x if self.output is None else self.output(x)
