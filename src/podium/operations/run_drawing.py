"""The picture of a run: that of its plan, with the status of each step."""

from collections.abc import Mapping
from typing import Final

from podium.drawing.picture import Picture, picture_of
from podium.drawing.states import BoxState, with_states
from podium.operations.parts import Parts
from podium.operations.report_rows import word_of
from podium.operations.run_views import steps_of
from podium.plan.loading import plan_path

# For the instances of a step in a loop, in this order.
_FIRST_SEEN: Final = ("failed", "running", "waiting", "stopped", "ok", "skipped")


async def picture_of_run(parts: Parts, tenant_id: str, run_id: str) -> Picture:
    """Raises `RunNotFound`, also for another tenant's run."""
    run = await parts.store.runs.find(tenant_id, run_id)
    counts: dict[str, dict[str, int]] = {}
    async for step in steps_of(parts, tenant_id, run_id):
        words = counts.setdefault(plan_path(step.step_id), {})
        words[word_of(step)] = words.get(word_of(step), 0) + 1
    states = {path: _state(words) for path, words in counts.items()}
    return with_states(picture_of(await parts.plan_of(run)), states)


def _state(words: Mapping[str, int]) -> BoxState:
    """For a step in a loop, the status that is most important to a person."""
    first = next(word for word in _FIRST_SEEN if word in words)
    text = ", ".join(f"{words[word]} {word}" for word in _FIRST_SEEN if word in words)
    return BoxState(first, text if sum(words.values()) > 1 else first)
