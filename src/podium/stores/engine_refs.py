"""The engine of a run as columns: the ids by which it is found, and the complete reference as JSON.

Rows of older versions have only the ids.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from podium.log.engines import EngineRunRef
from podium.log.ids import RunId

_REFERENCE: Final[msgspec.json.Decoder[EngineRunRef]] = msgspec.json.Decoder(EngineRunRef)
EngineColumns: TypeAlias = tuple[str | None, str | None, str | None, bytes | None]


def engine_columns(engine: EngineRunRef | None) -> EngineColumns:
    """Provider, workflow, the provider's run, and the complete reference."""
    if engine is None:
        return None, None, None, None
    return engine.provider, engine.workflow_id, engine.provider_run_id, msgspec.json.encode(engine)


def engine_of(run_id: str, columns: Sequence[Any]) -> EngineRunRef | None:
    provider, workflow_id, provider_run_id, reference = columns
    if reference is not None:
        return _REFERENCE.decode(reference)
    if provider is None:
        return None
    ids = {"workflowId": workflow_id, "runId": RunId(run_id), "providerRunId": provider_run_id or ""}
    # Fields that older rows lack are empty.
    found: EngineRunRef = msgspec.convert(
        {"provider": provider, "namespace": "default", "conductorUrl": "", **ids}, EngineRunRef
    )
    return found
