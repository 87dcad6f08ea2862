"""The nodes are plain classes: their tests need no run."""

import asyncio
from pathlib import Path

from quote_nodes.nodes import QuotePrice, ReserveStock, WriteOffer

import podium

NODES = (QuotePrice, ReserveStock, WriteOffer)
CONTRACT = Path(__file__).parents[1] / "contract.yaml"


def test_the_contract_runs(tmp_path: Path) -> None:
    async def run() -> podium.Result:
        return await podium.run_async(
            CONTRACT, nodes=NODES, runs=tmp_path, inputs={"event": {"item": "tea", "count": 3}}
        )

    result = asyncio.run(run())
    assert result.status == "completed"
    assert result.steps["write_offer"].json == {"text": "7.50 EUR, in stock"}
