"""What the nodes are given and what they return. Unknown fields are refused."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from podium.nodes import ModelStepResult


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Request(_Frozen):
    """The event: what a customer asks for."""

    item: str = "tea"
    count: int = 1


class PriceConfig(_Frozen):
    cents_each: int


class PriceInput(_Frozen):
    event: Request
    config: PriceConfig


class Price(_Frozen):
    item: str
    cents: int


class StockInput(_Frozen):
    event: Request


class Reservation(_Frozen):
    item: str
    reserved: int
    # Idempotent: the same run reserves once, however often it is tried.
    key: str


class OfferInput(_Frozen):
    outputs: dict[str, Any]
    results: dict[str, ModelStepResult]


class Offer(_Frozen):
    text: str
