"""Norms of the residual stream and of the latent."""

from torch import nn

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


def make_latent_norm(geometry: Geometry) -> nn.Module:
    """The norm of the latent: by its root mean square whatever the stream has, none in a model without norms."""
    return nn.Identity() if geometry.norm == "none" else nn.RMSNorm(geometry.latent_dim, eps=EPSILON)
