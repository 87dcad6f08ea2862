"""Messages published for a run: one event for each state that it entered, in order, and one result."""

from collections.abc import Mapping
from typing import Any, Final

from podium.nodes.publishing import Publication
from podium.nodes.registration.fsm import EVENT_OF, State
from podium.nodes.registration.steps import Aggregated
from podium.ports.catalog import Projection

RESULT: Final = "NodeRegistrationResultEvent"


def publications(
    done: Aggregated, row: Projection | None, topics: Mapping[str, str], version: str
) -> tuple[Publication, ...]:
    """`row` is the projection as it was stored. Consumers drop late transitions by its revision."""
    reduced = done.reduced
    common: dict[str, Any] = {
        "node_id": str(reduced.node_id),
        "correlation_id": str(reduced.correlation_id),
        "revision": row.revision if row is not None else None,
        "epoch": row.node.epoch if row is not None else None,
        "timestamp": reduced.now.isoformat(),
    }
    bodies = [
        (EVENT_OF[state], common | _more(state, done)) for state in done.state.entered if state in EVENT_OF
    ]
    bodies.append((RESULT, common | done.outcome.model_dump(mode="json")))
    return tuple(
        Publication(topic=topics[name], key=common["node_id"], type=name, version=version, body=body)
        for name, body in bodies
    )


def _more(state: State, done: Aggregated) -> dict[str, Any]:
    return {"code": done.state.code} if state is State.REJECTED else {}
