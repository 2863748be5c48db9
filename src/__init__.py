"""headcount: is more attention heads always better?

One legend for every shape in the signatures of this package:

    B  batch              H  query heads          E  model width (d_model)
    T  new positions      K  key/value heads      D  width of one head
    S  cached positions   G  query heads a kv-head (H / K)
    V  vocabulary         R  latent width         P  rotary key width (latent attention)
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds src/, conf/ and sweeps/: the checkout, or site-packages once installed."""

__version__ = "0.1.0"
