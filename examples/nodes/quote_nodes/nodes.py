"""A compute, an effect and a reducer."""

from podium.nodes import NodeCompute, NodeContext, NodeEffect, NodeReducer, operation
from quote_nodes.models import Offer, OfferInput, Price, PriceInput, Reservation, StockInput


class QuotePrice(NodeCompute):
    """What so many of an item cost."""

    name = "quote_price"

    @operation
    def quote(self, data: PriceInput, context: NodeContext) -> Price:
        return Price(item=data.event.item, cents=data.event.count * data.config.cents_each)


class ReserveStock(NodeEffect):
    """Would call a warehouse. It may be called again after a crash, so that it names what it reserves for."""

    name = "reserve_stock"
    service = "warehouse"

    @operation
    async def reserve(self, data: StockInput, context: NodeContext) -> Reservation:
        return Reservation(item=data.event.item, reserved=data.event.count, key=context.run_id)


class WriteOffer(NodeReducer):
    """Folds price and reservation into an offer."""

    name = "write_offer"

    @operation
    def reduce(self, data: OfferInput, context: NodeContext) -> Offer:
        price = data.outputs["quote_price"]["cents"] / 100
        stock = "in stock" if data.results["reserve_stock"].status == "completed" else "on request"
        return Offer(text=f"{price:.2f} EUR, {stock}")
