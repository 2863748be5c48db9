"""Norms of the residual stream and of the latent."""

from jaxtyping import Float
from torch import Tensor, nn

from src.geometry import Geometry

EPSILON = 1e-5
"""Said here because torch's RMSNorm would take the machine epsilon of whatever dtype comes: 0.008 in bfloat16."""


def make_norm(geometry: Geometry) -> nn.Module:
    """The norm of the residual stream that the geometry asks for."""
    if geometry.norm == "layer":
        return nn.LayerNorm(geometry.d_model, eps=EPSILON, bias=geometry.bias)
    if geometry.norm == "rms":
        return nn.RMSNorm(geometry.d_model, eps=EPSILON)
    return nn.Identity()


class LatentNorm(nn.RMSNorm):
    """RMSNorm in the dtype of its weight, whatever autocast makes of the latent before it."""

    def forward(self, x: Float[Tensor, "*any R"]) -> Float[Tensor, "*any R"]:
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


def make_latent_norm(geometry: Geometry) -> nn.Module:
    """The norm of the latent: by its root mean square whatever the stream has, none in a model without norms."""
    return nn.Identity() if geometry.norm == "none" else LatentNorm(geometry.latent_dim, eps=EPSILON)
