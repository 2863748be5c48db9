"""What every part of the configuration is, and the kinds of numbers and names that its fields hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

LARGEST_COUNT = 10**12
"""No count is larger: tables, records and torch keep it exactly."""
LARGEST_SEED = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly."""
SMALLEST, LARGEST = 1e-30, 1e38
"""What float32, in which models are trained, keeps apart from nothing and from infinity."""


def _without_sign_of_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value  # -0.0 would be another run than 0.0


Number = Annotated[float, BeforeValidator(_without_sign_of_zero)]
Positive = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Share = Annotated[Number, Field(ge=0, le=1)]
Fraction = Annotated[Number, Field(ge=0, lt=1)]
Rate = Annotated[Number, Field(ge=SMALLEST, le=LARGEST)]


def zero_or(least: float, greatest: float, zero_means: str) -> AfterValidator:
    """A number between two limits, or zero, which means something of its own."""

    def check(value: float) -> float:
        if value != 0 and not least <= value <= greatest:
            raise ValueError(f"it should be 0 ({zero_means}) or from {least:g} to {greatest:,g}")
        return value

    return AfterValidator(check)


def matching(fits: Callable[[str], object], rule: str) -> AfterValidator:
    """Text that passes `fits`; `rule` says in words which does, with an example."""

    def check(value: str) -> str:
        if not fits(value):
            raise ValueError(f"it should be {rule}")
        return value

    return AfterValidator(check)


class Section(BaseModel):
    """Frozen, typed as written (no text taken for a number), and closed to unknown names."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)
